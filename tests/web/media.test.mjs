/* Images and sound to tensors in Node, beside results of Pillow, NumPy and SciPy (make_media.py). */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { load, read } from './support.mjs';

const { imageToTensor, pixelsToTensor, readPixels, resizePixels, tensorToImage } = await load('image.js');
const { audioToTensor, decodeWav, frameSamples, mixChannels, resample } = await load('audio.js');
const { Program, XcvmError } = await load('index.js');
const media = JSON.parse(new TextDecoder().decode(read('tests/web/data/media.json')));
const image = { data: Uint8ClampedArray.from(media.pixels), width: media.width, height: media.height };
const sound = Float32Array.from(media.sound);
const fails = (status, message) => (error) => error instanceof XcvmError && error.status === status && message.test(error.message) ||
    assert.fail(`expected ${status} ${message}, not ${error.status} ${error.message}`);
const close = (got, expected, tolerance) => {
    assert.equal(got.length, expected.length);
    expected.forEach((x, i) => assert.ok(Math.abs(x - got[i]) <= tolerance, `element ${i}: ${got[i]}, not ${x}`));
};

test('sizes change as in Pillow', () => {
    for (const { data, ...options } of media.sizes) {
        const tensor = pixelsToTensor(image, { ...options, layout: 'HWC', dtype: 'u8' });
        assert.deepEqual(tensor.dims, [options.height, options.width, 3]);
        assert.deepEqual([...tensor.data], data, JSON.stringify(options));
    }
    assert.deepEqual([...resizePixels(image, 11, 7).data], media.pixels);
});

test('layouts, channel orders, mean and deviation', () => {
    const normal = pixelsToTensor(image, { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] });
    assert.deepEqual(normal.dims, [1, 3, 7, 11]);
    close(normal.data, media.normal_nchw, 1e-6);
    close(pixelsToTensor(image, { layout: 'NHWC', order: 'BGR' }).data, media.bgr_nhwc, 1e-7);
    assert.deepEqual([...pixelsToTensor(image, { order: 'gray', dtype: 'u8' }).data], media.gray);
    const rgba = { ...image, data: Uint8Array.from(media.rgba) };
    assert.deepEqual([...pixelsToTensor(rgba, { layout: 'HWC', order: 'RGBA', dtype: 'u8' }).data], media.rgba);
    assert.deepEqual([...pixelsToTensor(rgba, { layout: 'HWC', dtype: 'u8' }).data], media.pixels);
    assert.deepEqual([...pixelsToTensor(rgba, { layout: 'HWC', dtype: 'u8', alpha: 'blend', background: [255, 0, 128] }).data], media.blended);
    for (const options of [{}, { mean: 0.5, std: [0.2, 0.3, 0.4], layout: 'HWC', order: 'BGR' }, { scale: 1, layout: 'NHWC' }, { dtype: 'u8' }]) {
        const { data, width, height } = tensorToImage(pixelsToTensor(image, options), options);
        assert.deepEqual([width, height], [11, 7]);
        assert.deepEqual([...data].filter((_, i) => i % 4 !== 3), media.pixels);
    }
    const gray = tensorToImage(pixelsToTensor(image, { order: 'gray', layout: 'CHW' }));
    assert.deepEqual([...gray.data].filter((_, i) => i % 4 === 1), media.gray);
});

test('image files, and options that follow from an input', async () => {
    const bytes = Uint8Array.from(media.png), folder = mkdtempSync(path.join(tmpdir(), 'xcvm-media-')), file = path.join(folder, 'image.png');
    writeFileSync(file, bytes);
    for (const source of [bytes, file, new Blob([bytes])])
        assert.deepEqual([...(await readPixels(source)).data], media.pixels);
    rmSync(folder, { recursive: true });
    const { data, ...size } = media.sizes[0];
    const text = (type) => `xcvm 1\ninput x ${type}\noutput y ${type}\n$1 = In(name="x")\n$2 = Identity($1)\nOut($2, name="y")\n`;
    for (const [type, layout] of [['u8[1x3x4x5]', 'NCHW'], ['u8[4x5x3]', 'HWC']]) {
        const program = await Program.assemble(text(type)), x = await imageToTensor(bytes, { input: program.inputs[0] });
        assert.deepEqual(x.dims, program.inputs[0].dims);
        assert.deepEqual([...x.data], [...pixelsToTensor(image, { ...size, layout, dtype: 'u8' }).data]);
        program.createSession().run({ x });
        program.dispose();
    }
    const dynamic = await Program.assemble(text('f32[Nx3xHxW]'));
    assert.deepEqual((await imageToTensor(image, { input: dynamic.inputs[0], width: 6 })).dims, [1, 3, 7, 6]);
    dynamic.dispose();
});

test('images that are none are errors', async () => {
    assert.throws(() => pixelsToTensor({ data: new Uint8Array(5), width: 2, height: 2 }), fails('SHAPE_MISMATCH', /5 bytes/));
    assert.throws(() => pixelsToTensor({ ...image, width: 0 }), fails('INVALID_ARGUMENT', /width of the image/));
    for (const [options, message] of [[{ width: 1.5 }, /the width is 1.5/], [{ height: 1e9 }, /the height/], [{ layout: 'WHC' }, /"WHC"/], [{ order: 'RBG' }, /"RBG"/],
        [{ fit: 'fill', width: 3 }, /"fill"/], [{ filter: 'lanczos', width: 3 }, /"lanczos"/], [{ mean: [1, 2] }, /mean/], [{ std: NaN }, /std/], [{ dtype: 'i8' }, /"i8"/],
        [{ input: { name: 'x', kind: 'tensor', dtype: 'f32', dims: [1, 10] } }, /input "x" is no image: the shape is \[1, 10\]/]])
        assert.throws(() => pixelsToTensor(image, options), fails('INVALID_ARGUMENT', message));
    assert.throws(() => resizePixels(image, 2, 2, { box: [0, 0, 12, 7] }), fails('OUT_OF_RANGE', /box/));
    assert.throws(() => tensorToImage({ dims: [2, 2, 2], data: new Float32Array(8) }), XcvmError);
    await assert.rejects(imageToTensor(7), fails('INVALID_ARGUMENT', /a number/));
    await assert.rejects(imageToTensor(new Uint8Array(10)), XcvmError);
    await assert.rejects(imageToTensor('/no/such/image.png'), fails('IO', /no\/such\/image/));
});

test('WAV files, one channel, sample rates and frames', async () => {
    const bytes = Uint8Array.from(media.wav), { sampleRate, channels } = decodeWav(bytes);
    assert.deepEqual([sampleRate, channels.length, channels[0].length], [8000, 2, 200]);
    close(mixChannels(channels), media.mono, 1e-7);
    const tensor = await audioToTensor(bytes, { sampleRate: 8000 });
    assert.deepEqual(tensor.dims, [1, 200]);
    close(tensor.data, media.mono, 1e-7);
    for (const { from, to, data } of media.rates) {
        close(resample(sound, from, to), data, 1e-6);
        close((await audioToTensor(sound, { from, sampleRate: to })).data, data, 1e-6);
    }
    const frames = frameSamples(sound, { length: 50, hop: 20 });
    assert.deepEqual(frames.dims, [8, 50]);
    close(frames.data, media.frames, 0);
    assert.deepEqual(frameSamples(sound, { length: 64, pad: true }).dims, [4, 64]);
    assert.deepEqual(frameSamples(sound, { length: 201 }).dims, [0, 201]);
    const buffer = { sampleRate: 8000, numberOfChannels: 1, getChannelData: () => sound };
    close((await audioToTensor(buffer)).data, media.rates[0].data, 1e-6);
});

test('every sample format, and sounds that are none', async () => {
    const wav = (code, bits, write) => {
        const view = new DataView(new ArrayBuffer(44 + 3 * bits / 8)), tag = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
        ['RIFF', 'WAVE', 'fmt ', 'data'].forEach((text, i) => tag([0, 8, 12, 36][i], text));
        [[16, 16], [24, 16000], [40, 3 * bits / 8]].forEach(([at, value]) => view.setUint32(at, value, true));
        [[20, code], [22, 1], [34, bits]].forEach(([at, value]) => view.setUint16(at, value, true));
        [0, 0.5, -1].forEach((x, i) => write(view, 44 + i * bits / 8, x));
        return new Uint8Array(view.buffer);
    };
    const formats = [wav(1, 8, (v, at, x) => v.setUint8(at, 128 + 128 * x)), wav(1, 16, (v, at, x) => v.setInt16(at, 32768 * x, true)),
        wav(1, 24, (v, at, x) => { v.setUint8(at, 0); v.setInt16(at + 1, 32768 * x, true); }), wav(1, 32, (v, at, x) => v.setInt32(at, 2147483648 * x, true)),
        wav(3, 32, (v, at, x) => v.setFloat32(at, x, true)), wav(3, 64, (v, at, x) => v.setFloat64(at, x, true))];
    for (const bytes of formats)
        assert.deepEqual([...decodeWav(bytes).channels[0]], [0, 0.5, -1]);
    for (let end = 0; end < 44; end++)
        assert.throws(() => decodeWav(formats[1].subarray(0, end)), XcvmError);
    assert.deepEqual(decodeWav(formats[1].subarray(0, 47)).channels[0].length, 1);
    assert.throws(() => decodeWav(wav(2, 16, () => {})), fails('UNSUPPORTED', /format 2/));
    assert.throws(() => resample(sound, 0, 16000), fails('INVALID_ARGUMENT', /sample rate/));
    assert.throws(() => frameSamples(sound, { length: 0 }), fails('INVALID_ARGUMENT', /length/));
    await assert.rejects(audioToTensor({ sampleRate: 8000, channels: [] }), fails('INVALID_ARGUMENT', /channels/));
    await assert.rejects(audioToTensor(7), XcvmError);
});
