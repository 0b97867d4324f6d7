/* The page of `xcvm serve` in headless Chromium: models, a run with values and with an image, the histogram and the traces.
 * XCVM_PAGE_TEST has lines: NODE_MODULES, XCVM, WORK, and PICTURE or nothing. WORK has the models, and the results of `xcvm run`. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';

const [modules, command, work, picture] = process.env.XCVM_PAGE_TEST.split('\n');
const { chromium } = createRequire(path.join(modules, '/'))('playwright-core');
const KEY = 'a-key-of-many-characters', HOSTILE = '<img src=x onerror=globalThis.broken=1>';
let browser;
const servers = [];

async function serve(...options) {
    const server = spawn(command, ['serve', '--http', '127.0.0.1:0', ...options], { cwd: work, stdio: ['ignore', 'ignore', 'pipe'] });
    servers.push(server);
    let said = '';
    return new Promise((resolve, reject) => {
        server.stderr.on('data', (text) => {
            said += text;
            const found = /serving at (\S+)\n/.exec(said);
            if (found) resolve(`http://${found[1]}/`);
        });
        server.on('exit', () => reject(new Error(said)));
    });
}

async function open(url, options = {}) {
    const page = await (await browser.newContext(options)).newPage();
    page.setDefaultTimeout(120000); /* other tests run beside it */
    page.problems = [];
    page.on('console', (message) => /Content Security Policy/.test(message.text()) && page.problems.push(message.text()));
    page.on('pageerror', (error) => page.problems.push(`${error}`));
    page.on('request', (request) => !request.url().startsWith(url) && !/^(data|blob):/.test(request.url()) && page.problems.push(request.url()));
    await page.goto(url);
    return page;
}

async function close(page) {
    assert.deepEqual(page.problems, []);
    await page.context().close();
}

// A part of the page by the name of the model.
const model = (page, name) => page.locator('.model').filter({ has: page.locator('.name', { hasText: name }) }).first();
const rows = async (section) => (await section.locator('.outputs tbody tr').allInnerTexts()).map((row) => row.split('\t').slice(0, 2).map((s) => s.trim()));
const wanted = (name) => new Float32Array(new Uint8Array(readFileSync(path.join(work, name))).buffer);

async function run(section) {
    await section.locator('.outputs').evaluate((box) => box.replaceChildren());
    await section.locator('button.run').click();
    await section.locator('.outputs table').first().waitFor();
}

before(async () => {
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'] });
});
after(async () => {
    await browser?.close();
    for (const server of servers) server.kill();
});

test('models, runs, histogram and traces', async () => {
    const url = await serve('digits=digits.onnx', 'doubles.xcvm', `./${HOSTILE}.xcvm`), page = await open(url);
    await page.locator('.model').nth(2).waitFor();
    assert.deepEqual(await page.locator('.model .name').allInnerTexts(), [HOSTILE, 'digits', 'doubles']);
    assert.deepEqual(await page.locator('.model .state').allInnerTexts(), ['ready', 'ready', 'ready']);
    assert.equal(await page.locator('.model img').count(), 0);

    // Values that are typed.
    const doubles = model(page, 'doubles');
    await page.locator('.model').nth(2).locator('summary', { hasText: 'Try it' }).click();
    const last = page.locator('.model').nth(2);
    await last.locator('.numbers input').first().fill('1.5');
    await last.locator('.numbers input').nth(1).fill('-3');
    await run(last);
    assert.deepEqual(await rows(last), [['0', '3'], ['1', '-6']]);
    await last.locator('.numbers input').first().fill('x');
    await last.locator('button.run').click();
    await last.locator('.told.bad', { hasText: '"x" is not a number' }).waitFor();
    await last.locator('button.random').click();
    await run(last);
    assert.equal(await doubles.count(), 1);

    // A model whose name is HTML.
    const hostile = page.locator('.model').nth(0);
    await hostile.locator('summary', { hasText: 'Try it' }).click();
    await run(hostile);
    assert.equal(await page.evaluate(() => globalThis.broken), undefined);

    // An image, with names of classes; the results are those of `xcvm run` with the same image.
    const digits = page.locator('.model').nth(1), probabilities = wanted('probabilities.raw');
    await digits.locator('summary', { hasText: 'Try it' }).click();
    await digits.locator('input.image').setInputFiles(path.join(work, 'digit.png'));
    await digits.locator('fieldset[data-image="digit.png"]').waitFor();
    await run(digits);
    const shown = await rows(digits), best = probabilities.indexOf(Math.max(...probabilities));
    assert.equal(shown.length, 10);
    assert.equal(shown[0][0], ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'][best]);
    assert.ok(Math.abs(Number(shown[0][1]) - probabilities[best]) < 1e-3, `${shown[0]}, expected ${probabilities[best]}`);
    assert.ok(await digits.locator('td.share i').first().evaluate((bar) => bar.getBoundingClientRect().width) > 20);
    await digits.locator('select.scale').selectOption('inverted, 0 to 1');
    await page.waitForFunction(() => document.querySelectorAll('.model')[1].querySelector('.numbers input').value === '1');
    await digits.locator('select.scale').selectOption('0 to 1');

    // More elements than the page sends.
    const batch = digits.locator('.shape input');
    await batch.fill('9999999');
    await batch.press('Tab');
    await digits.locator('button.random').click();
    await digits.locator('.tools .bad', { hasText: 'the page sends at most 16777216' }).waitFor();
    await batch.fill('1');
    await batch.press('Tab');

    // The histogram has the numbers of the metrics.
    await page.waitForFunction(() => document.querySelectorAll('.model')[2].querySelector('.cards dd').textContent === '2');
    const counts = (await last.locator('.bar').evaluateAll((bars) => bars.map((bar) => Number(bar.dataset.count)))).filter((count) => count > 0);
    const metrics = await (await fetch(`${url}metrics`)).text();
    const sums = [...metrics.matchAll(/xcvm_request_seconds_bucket\{model="doubles".*\} (\d+)/g)].map(([, sum]) => Number(sum));
    assert.deepEqual(counts, sums.map((sum, i) => sum - (sums[i - 1] ?? 0)).filter((count) => count > 0));
    assert.equal(counts.reduce((a, b) => a + b), 2);

    // The link to the traces saves those of the runs above, with their instructions.
    const saved = page.waitForEvent('download');
    await page.locator('#traces').click();
    const { traceEvents } = JSON.parse(readFileSync(await (await saved).path(), 'utf8'));
    assert.deepEqual(traceEvents.filter((event) => event.cat === 'Request').map((event) => event.name), ['doubles', 'doubles', HOSTILE, 'digits']);
    assert.ok(traceEvents.some((event) => event.cat === 'Node' && event.name === 'Softmax'));
    if (picture) {
        const body = JSON.stringify({ inputs: [{ name: 'image', shape: [1, 1, 8, 8], datatype: 'FP32', data: new Array(64).fill(0.5) }] });
        for (let i = 0; i < 400; i++) await fetch(`${url}v2/models/digits/infer`, { method: 'POST', body });
        await page.reload();
        await digits.locator('summary', { hasText: 'Try it' }).click();
        await digits.locator('input.image').setInputFiles(path.join(work, 'digit.png'));
        await digits.locator('fieldset[data-image="digit.png"]').waitFor();
        await run(digits);
        await page.setViewportSize({ width: 1000, height: 700 });
        await digits.evaluate((section) => document.querySelector('main').replaceChildren(section));
        await page.evaluate(() => scrollTo(0, 0));
        await page.screenshot({ path: picture, fullPage: true });
    }
    await close(page);
});

test('an API key, a phone in the dark, and a model that fails', async () => {
    const url = await serve('doubles.xcvm', '--api-key-file', 'key');
    const page = await open(url, { viewport: { width: 390, height: 800 }, colorScheme: 'dark' });
    await page.locator('#key').waitFor();
    assert.equal(await page.locator('.model').count(), 0);
    await page.locator('#secret').fill('wrong');
    await page.locator('#key button').click();
    await page.locator('#problem', { hasText: 'missing or wrong' }).waitFor();
    await page.locator('#secret').fill(KEY);
    await page.locator('#key button').click();
    const section = page.locator('.model').first();
    await section.locator('summary', { hasText: 'Try it' }).click();
    await section.locator('.numbers input').first().fill('2');
    await run(section);
    assert.deepEqual(await rows(section), [['0', '4'], ['1', '0']]);
    const saved = page.waitForEvent('download');
    await page.locator('#traces').click();
    assert.match(readFileSync(await (await saved).path(), 'utf8'), /"cat":"Request"/);
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(20, 24, 29)');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the phone');
    const unload = await fetch(`${url}v2/repository/models/doubles/unload`, { method: 'POST', headers: { 'X-API-Key': KEY } });
    assert.equal(unload.status, 200);
    await section.locator('.state.bad', { hasText: 'not ready' }).waitFor();
    assert.equal(await section.locator('.reason').innerText(), 'unloaded');
    await close(page);
});
