/* The playground in headless Chromium, under a strict content security policy, with a camera that shows a test picture.
 * XCVM_PICTURE is a file that gets a picture of the page. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { openSite } from './site.mjs';
import { endless, root } from './support.mjs';

let site, page, errors;
before(async () => {
    site = await openSite('--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream');
    const context = await site.browser.newContext({ viewport: { width: 1100, height: 900 }, permissions: ['camera'] });
    page = await context.newPage();
    page.setDefaultTimeout(120000); /* other tests run beside it */
    errors = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(`${site.address}package/playground/index.html`, { waitUntil: 'networkidle' });
});
after(() => site?.close());

const text = (selector) => page.textContent(selector);
const status = (pattern) => page.waitForFunction(([source]) => new RegExp(source).test(document.getElementById('status').textContent), [pattern.source]);

/* Draws a seven. */
async function draw(selector) {
    await page.locator(selector).scrollIntoViewIfNeeded();
    const { x, y, width, height } = await page.locator(selector).boundingBox(), move = (a, b) => page.mouse.move(x + a * width, y + b * height, { steps: 4 });
    await move(0.3, 0.2);
    await page.mouse.down();
    await move(0.7, 0.2);
    await move(0.5, 0.85);
    await page.mouse.up();
}

test('the first paint needs at most 100 KB', () => {
    const bytes = site.served.reduce((sum, [, count]) => sum + count, 0);
    assert.ok(bytes <= 100000, `${bytes} bytes: ${site.served.join('; ')}`);
    assert.ok(site.served.every(([name]) => !name.endsWith('.wasm')), 'a module was loaded before it was needed');
});

test('load, run, profile, step', async () => {
    await page.click('#example');
    await page.waitForSelector('#loaded:not([hidden])');
    assert.equal(await page.locator('#values tr').count(), 2);
    await page.fill('#dynamic', '3');
    await page.click('#run');
    await page.waitForSelector('#profile tr');
    assert.equal(await page.locator('#profile tr').count(), 5);
    assert.match(await text('#results'), /^y: f32\[3x3\][^]*y = f32\[3x3\] 0\.\d+ /);
    assert.equal(await page.locator('#graph g').count(), 5);
    await page.click('#next');
    assert.match(await text('#step'), /^\$2 = MatMul\(\$1, @#0\)\n[^]*\$2 : f32\[3x3\] /);
    assert.deepEqual(await page.locator('#registers tr td:first-child').allTextContents(), ['$1', '$2']);
    assert.equal(await page.locator('#pictures canvas').count(), 1);
    await page.click('#profile tr:last-child');
    assert.match(await text('#position'), /^5 of 5$/);
    assert.equal(await page.locator('#graph g.chosen text').textContent(), 'Out');
    const download = page.waitForEvent('download');
    await page.click('#trace');
    const { traceEvents } = JSON.parse(readFileSync(await (await download).path(), 'utf8'));
    assert.deepEqual(traceEvents.map(({ name }) => name), ['In', 'MatMul', 'Relu', 'Softmax', 'Out']);
    assert.ok(traceEvents.every(({ ph, ts, dur }) => ph === 'X' && ts >= 0 && dur >= 0));
});

test('a model with an image, a drawing and the camera', async () => {
    await page.setInputFiles('#file', path.join(root, 'examples/digits/model.onnx'));
    await status(/model\.onnx is loaded/);
    await page.selectOption('#source', 'image');
    await page.click('#run');
    await status(/Choose an image first/);
    await page.setInputFiles('#image', path.join(root, 'examples/digits/images/3.png'));
    await page.waitForTimeout(100);
    await page.click('#run');
    await status(/A run takes/);
    assert.match(await text('#results .bar'), /^3/);
    await page.click('#digits');
    await status(/Draw a digit/);
    await draw('#pad');
    await page.waitForFunction(() => /^7/.test(document.querySelector('#results .bar')?.textContent));
    await page.click('#run');
    await status(/A run takes/);
    assert.match(await text('#results .bar'), /^7/);
    assert.equal(await page.evaluate(() => document.getElementById('preview').width), 8);
    await page.selectOption('#source', 'camera');
    await page.click('#run');
    await status(/frames a second/);
    await page.click('#stop');
    await page.waitForSelector('#run:not([hidden])');
    assert.equal(await page.evaluate(() => document.getElementById('video').srcObject), null);
});

test('files that are none, a model without images, and a program without end', async () => {
    await page.setInputFiles('#file', { name: 'broken.bin', mimeType: 'application/octet-stream', buffer: Buffer.from('not a model') });
    await page.waitForSelector('#status.error');
    await page.click('#example');
    await status(/is loaded/);
    await page.selectOption('#source', 'camera');
    await page.click('#run');
    await status(/No input has the shape of an image: x is N × 4/);
    await page.selectOption('#source', 'random');
    await page.setInputFiles('#file', { name: 'endless.txt', mimeType: 'text/plain', buffer: Buffer.from(endless) });
    await status(/endless\.txt is loaded/);
    await page.fill('#limit', '1');
    await page.click('#run');
    await status(/OUT_OF_TIME/);
    await page.click('#example');
    await status(/is loaded/);
});

test('training, and what it has learned', async () => {
    await page.fill('#epochs', '4');
    await page.click('#train');
    await page.waitForFunction(() => !document.getElementById('train').disabled && document.getElementById('progress').textContent);
    const [, accuracy] = /^Epoch 4 of 4: validation loss [\d.]+, accuracy ([\d.]+) %/.exec(await text('#progress')) ?? assert.fail(await text('#progress'));
    assert.ok(Number(accuracy) > 85, `accuracy ${accuracy} %`);
    assert.equal(await page.locator('#curve path').count(), 3);
    await draw('#digit');
    assert.equal(await page.locator('#answer .bar').count(), 10);
    const download = page.waitForEvent('download');
    await page.click('#save');
    const saved = readFileSync(await (await download).path());
    const header = JSON.parse(saved.subarray(8, 8 + Number(saved.readBigUInt64LE())));
    assert.deepEqual(header['head.weight'].shape, [10, 256]);
    await page.fill('#epochs', '1000');
    await page.click('#train');
    await page.waitForSelector('#halt:not([hidden])');
    await page.click('#halt');
    await page.waitForSelector('#halt', { state: 'hidden' });
    if (process.env.XCVM_PICTURE) {
        await page.click('#digits');
        await status(/Draw a digit/);
        await page.fill('#dynamic', '1');
        await page.click('#erase');
        await draw('#pad');
        await page.click('#run');
        await status(/A run takes/);
        await page.click('#profile tr:nth-child(2)');
        await page.evaluate(() => scrollTo(0, document.getElementById('run-section').offsetTop - 8));
        await page.screenshot({ path: process.env.XCVM_PICTURE });
    }
    assert.deepEqual(errors, []);
});
