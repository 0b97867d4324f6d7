/* The package as npm packs it: its files, its entries, and the snippets of its README. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { packageDir, root } from './support.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'xcvm-package-')), modules = path.join(folder, 'node_modules');
const native = path.join(packageDir, `../node_modules/@xcvm/${process.platform}-${process.arch}`);
const manifest = JSON.parse(readFileSync(path.join(packageDir, 'package.json'), 'utf8'));
const environment = (engine) => ({ ...process.env, XCVM_ENGINE: engine });

/* The files that npm packs, unpacked at a place. */
function unpack(from, to) {
    const [{ filename, files }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--offline', '--pack-destination', folder, from], { encoding: 'utf8', cwd: folder }));
    mkdirSync(to, { recursive: true });
    execFileSync('tar', ['-xzf', path.join(folder, filename.replace('@', '').replace('/', '-')), '--strip-components=1', '-C', to]);
    return files.map((file) => file.path);
}

let files;
before(() => { files = unpack(packageDir, path.join(modules, 'xcvm')); });
after(() => rmSync(folder, { recursive: true }));

test('the main package has every file that it names, and no native code', () => {
    for (const name of ['LICENSE', 'README.md', 'package.json', 'js/source.js'])
        assert.ok(files.includes(name), name);
    const leaves = (value) => typeof value === 'string' ? [value] : Object.values(value).flatMap(leaves);
    const named = leaves([manifest.exports, manifest.imports, manifest.types, manifest.main]);
    assert.ok(named.length > 10);
    for (const name of named)
        assert.ok(files.includes(name.slice(2)), name);
    assert.ok(!files.some((name) => /\.(node|so)/.test(name)));
    /* Every module that is an entry has types. */
    for (const entry of Object.values(manifest.exports))
        assert.ok(typeof entry === 'string' || (entry.types && entry.default));
});

test('versions agree', () => {
    const header = readFileSync(path.join(root, 'include/xcvm/xcvm.h'), 'utf8');
    const version = ['MAJOR', 'MINOR', 'PATCH'].map((part) => header.match(new RegExp(`XCVM_VERSION_${part} (\\d+)`))[1]).join('.');
    assert.equal(manifest.version, version);
    for (const dependency of Object.values(manifest.optionalDependencies))
        assert.equal(dependency, version);
});

const snippets = readFileSync(path.join(root, 'web/README.md'), 'utf8').match(/(?<=```js\n)[^]*?(?=```)/g);
function runSnippets(engine) {
    cpSync(path.join(root, 'tests/fuzz/corpus/model/softmax_axis_0.onnx'), path.join(folder, 'model.onnx'));
    return snippets.map((snippet, i) => {
        writeFileSync(path.join(folder, `snippet${i}.mjs`), snippet);
        return execFileSync(process.execPath, [`snippet${i}.mjs`], { cwd: folder, encoding: 'utf8', env: environment(engine) });
    });
}

test('the snippets of the README run', () => {
    const printed = runSnippets('');
    assert.equal(printed.length, 3);
    assert.match(printed[0], /^\[ \d/);
    assert.match(printed[1], /^wasm \[ '.*: f32\[/);
});

test('the native package is found, and loads', { skip: !existsSync(native) && 'it is not built' }, () => {
    const [{ files: packed }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--dry-run', '--offline', native], { encoding: 'utf8', cwd: folder }));
    assert.deepEqual(packed.map((file) => file.path).filter((name) => !/^libprotobuf-c\.so/.test(name)).sort(), ['LICENSE', 'package.json', 'xcvm.node']);
    mkdirSync(path.join(modules, '@xcvm'));
    symlinkSync(native, path.join(modules, `@xcvm/${process.platform}-${process.arch}`));
    assert.match(runSnippets('')[1], /^native /);
    assert.match(runSnippets('wasm')[1], /^wasm /);
});

test('an engine that is missing is an error', () => {
    rmSync(path.join(modules, '@xcvm'), { recursive: true, force: true });
    const code = "import { init } from 'xcvm'; console.log(await init().catch((e) => `${e.status} ${e.message}`));";
    writeFileSync(path.join(folder, 'missing.mjs'), code);
    assert.match(execFileSync(process.execPath, ['missing.mjs'], { cwd: folder, encoding: 'utf8', env: environment('native') }),
        /^UNSUPPORTED the native engine cannot be loaded \(@xcvm\/linux-\w+: Cannot find module .*install @xcvm\/linux-\w+, or use the engine 'wasm'/);
});
