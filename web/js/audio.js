/* Sound to tensors: WAV files, mixing to one channel, sample rates, and frames. */
import { describe, readBytes, XcvmError } from './source.js';
import { Tensor } from './values.js';

function checkRate(rate, what) {
    if (!Number.isInteger(rate) || rate < 1 || rate > 1e6)
        throw new XcvmError('INVALID_ARGUMENT', `${what} is ${typeof rate === 'number' ? rate : describe(rate)}; expected an integer of Hz up to 1000000`);
    return rate;
}

/* ---- WAV ---- */

/* Readers of a sample, by format (1 integers, 3 floats) and bits. */
const READERS = {
    '1 8': (view, at) => (view.getUint8(at) - 128) / 128,
    '1 16': (view, at) => view.getInt16(at, true) / 32768,
    '1 24': (view, at) => (view.getUint8(at) | view.getInt16(at + 1, true) << 8) / 8388608,
    '1 32': (view, at) => view.getInt32(at, true) / 2147483648,
    '3 32': (view, at) => view.getFloat32(at, true),
    '3 64': (view, at) => view.getFloat64(at, true),
};

/** Reads a WAV file of integers or floats: { sampleRate, channels }, with a Float32Array for each channel. */
export function decodeWav(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const tag = (at) => at + 4 <= bytes.length ? String.fromCharCode(...bytes.subarray(at, at + 4)) : '';
    if (tag(0) !== 'RIFF' || tag(8) !== 'WAVE')
        throw new XcvmError('INVALID_ARGUMENT', 'the sound is no WAV file; expected RIFF and WAVE at its begin');
    let format = null;
    for (let at = 12; at + 8 <= bytes.length;) {
        const size = view.getUint32(at + 4, true), begin = at + 8;
        if (tag(at) === 'fmt ' && size >= 16 && begin + 16 <= bytes.length) {
            const code = view.getUint16(begin, true), isExtensible = code === 0xfffe && size >= 26 && begin + 26 <= bytes.length;
            format = { code: isExtensible ? view.getUint16(begin + 24, true) : code, count: view.getUint16(begin + 2, true),
                sampleRate: view.getUint32(begin + 4, true), bits: view.getUint16(begin + 14, true) };
        }
        if (tag(at) === 'data') {
            const read = format && READERS[`${format.code} ${format.bits}`];
            if (!read || format.count === 0)
                throw new XcvmError('UNSUPPORTED', format ? `the WAV file has format ${format.code} with ${format.bits} bits and ${format.count} channels; expected integers of 8 to 32 bits or floats` : 'the WAV file has no format before its data');
            const each = format.bits / 8, step = each * format.count, length = Math.floor(Math.min(size, bytes.length - begin) / step);
            return { sampleRate: checkRate(format.sampleRate, 'the sample rate of the WAV file'), channels: Array.from({ length: format.count },
                (_, c) => Float32Array.from({ length }, (_, i) => read(view, begin + i * step + c * each))) };
        }
        at = begin + size + size % 2;
    }
    throw new XcvmError('INVALID_ARGUMENT', 'the WAV file has no data');
}

/* ---- Sample rates ---- */

const divisor = (a, b) => b === 0 ? a : divisor(b, a % b);

/* The modified Bessel function of order 0. */
function bessel(x) {
    let sum = 1, term = 1;
    for (let k = 1; term > 1e-17 * sum; k++) {
        term *= (x / 2 / k) ** 2;
        sum += term;
    }
    return sum;
}

/* A low-pass filter of 2 * half + 1 taps with Kaiser's window and a gain of 1 for constants, times `gain`. */
function lowPass(half, cutoff, gain) {
    const taps = Float64Array.from({ length: 2 * half + 1 }, (_, i) => {
        const x = (i - half) * cutoff, sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
        return sinc * bessel(5 * Math.sqrt(1 - ((i - half) / half) ** 2));
    });
    const sum = taps.reduce((a, b) => a + b, 0);
    return taps.map((tap) => tap / sum * gain);
}

/** Changes the sample rate, as scipy.signal.resample_poly. */
export function resample(samples, from, to) {
    checkRate(from, 'the sample rate');
    checkRate(to, 'the new sample rate');
    const common = divisor(from, to), up = to / common, down = from / common;
    if (up === down)
        return Float32Array.from(samples);
    const half = 10 * Math.max(up, down), taps = lowPass(half, 1 / Math.max(up, down), up);
    return Float32Array.from({ length: Math.ceil(samples.length * up / down) }, (_, i) => {
        const center = i * down, first = Math.max(0, Math.ceil((center - half) / up)), end = Math.min(samples.length - 1, Math.floor((center + half) / up));
        let sum = 0;
        for (let k = first; k <= end; k++)
            sum += samples[k] * taps[center - k * up + half];
        return sum;
    });
}

/* ---- Tensors ---- */

/** Reads sound as { sampleRate, channels }: an AudioBuffer, such an object, or a WAV file (path, URL, Blob, Response, bytes). Browsers
 * also read other formats by AudioContext.decodeAudioData, whose result is an AudioBuffer. */
export async function readAudio(audio) {
    if (typeof audio?.getChannelData === 'function')
        return { sampleRate: audio.sampleRate, channels: Array.from({ length: audio.numberOfChannels }, (_, c) => audio.getChannelData(c)) };
    if (Array.isArray(audio?.channels)) {
        checkRate(audio.sampleRate, 'the sample rate');
        if (audio.channels.length === 0 || !audio.channels.every((channel) => channel instanceof Float32Array && channel.length === audio.channels[0].length))
            throw new XcvmError('INVALID_ARGUMENT', 'the channels of the sound: expected Float32Arrays of one length');
        return audio;
    }
    return decodeWav(await readBytes(audio, 'the sound'));
}

/** Mean of channels. */
export function mixChannels(channels) {
    return channels.length === 1 ? channels[0]
        : channels[0].map((_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
}

/** Makes a tensor f32[1, samples] of one channel. A Float32Array needs `from`, its sample rate, unless that is `sampleRate`. */
export async function audioToTensor(audio, { sampleRate = 16000, from = sampleRate } = {}) {
    const { sampleRate: rate, channels } = audio instanceof Float32Array ? { sampleRate: from, channels: [audio] } : await readAudio(audio);
    const samples = resample(mixChannels(channels), rate, checkRate(sampleRate, 'sampleRate'));
    return new Tensor('f32', samples, [1, samples.length]);
}

/** Cuts samples into a tensor f32[frames, length]. Frames begin `hop` samples apart. Samples at the end that do not fill a frame are
 * left out, or with `pad` filled with zeros. */
export function frameSamples(samples, { length, hop = length, pad = false }) {
    for (const [name, value] of Object.entries({ length, hop }))
        if (!Number.isInteger(value) || value < 1)
            throw new XcvmError('INVALID_ARGUMENT', `${name} is ${typeof value === 'number' ? value : describe(value)}; expected a number of samples of at least 1`);
    const { length: count } = samples;
    const frames = pad ? Math.ceil(Math.max(0, count - length) / hop) + (count > 0 ? 1 : 0) : count >= length ? Math.floor((count - length) / hop) + 1 : 0;
    const data = new Float32Array(frames * length);
    for (let i = 0; i < frames; i++)
        data.set(samples.subarray(i * hop, i * hop + length), i * length);
    return new Tensor('f32', data, [frames, length]);
}
