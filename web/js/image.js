/* Images to tensors and back. Sizes change as in Pillow, with the same rounding, so that pixels are those of training. */
import { describe, readBytes, XcvmError } from './source.js';
import { arrayType, Tensor } from './values.js';

/* Channels of RGBA pixels by the names of channel orders; -1 is the mean of luma weights. */
const ORDERS = { RGB: [0, 1, 2], BGR: [2, 1, 0], RGBA: [0, 1, 2, 3], BGRA: [2, 1, 0, 3], gray: [-1] };
const FITS = ['stretch', 'cover', 'contain'], LAYOUTS = ['NCHW', 'NHWC', 'CHW', 'HWC'];
/* Filters of Pillow: support and weight. */
const FILTERS = {
    nearest: null,
    bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
    bicubic: { support: 2, weight: (x) => {
        x = Math.abs(x);
        return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((x - 5) * x + 8) * x * -0.5 + 2 : 0;
    } },
};
const PRECISION = 2 ** 22;

function choose(value, choices, what) {
    if (!choices.includes(value))
        throw new XcvmError('INVALID_ARGUMENT', `${what} is ${typeof value === 'string' ? `"${value}"` : describe(value)}; expected one of ${choices.join(', ')}`);
    return value;
}

function checkSize(value, what) {
    if (!Number.isInteger(value) || value < 1 || value > 32768)
        throw new XcvmError('INVALID_ARGUMENT', `${what} is ${typeof value === 'number' ? value : describe(value)}; expected a number of pixels from 1 to 32768`);
    return value;
}

/* Numbers for each channel. */
function perChannel(value, count, what) {
    const list = typeof value === 'number' ? new Array(count).fill(value) : Array.from(value ?? []);
    if (list.length < count || !list.every((number) => typeof number === 'number' && Number.isFinite(number)))
        throw new XcvmError('INVALID_ARGUMENT', `${what}: expected a number, or a number for each of ${count} channels`);
    return list;
}

/* ---- Pixels ---- */

/* Checks pixels of 1, 3 or 4 channels. */
function checkPixels({ data, width, height }) {
    checkSize(width, 'the width of the image');
    checkSize(height, 'the height of the image');
    const channels = data.length / (width * height);
    if (![1, 3, 4].includes(channels))
        throw new XcvmError('SHAPE_MISMATCH', `an image of ${width} x ${height} has ${data.length} bytes; expected 1, 3 or 4 for each pixel`);
    return { data, width, height, channels };
}

const isPixels = (image) => typeof image === 'object' && image !== null && 'width' in image && 'height' in image &&
    (image.data instanceof Uint8ClampedArray || image.data instanceof Uint8Array);

/** Reads the pixels of an image: ImageData or an object with `data`, `width` and `height`; a Blob, URL, path (Node) or bytes of an
 * image file; in browsers also an ImageBitmap, a VideoFrame, or an element of image, video or canvas. */
export async function readPixels(image) {
    if (isPixels(image))
        return checkPixels(image);
    const isFile = typeof image === 'string' || image instanceof URL || ArrayBuffer.isView(image) || image instanceof ArrayBuffer ||
        (typeof Blob === 'function' && image instanceof Blob) || (typeof Response === 'function' && image instanceof Response);
    if (isFile && typeof createImageBitmap !== 'function')
        return decodePixels(await readBytes(image, 'the image'));
    let source = image;
    if (isFile)
        try {
            source = await createImageBitmap(new Blob([await readBytes(image, 'the image')]));
        } catch (cause) {
            if (cause instanceof XcvmError)
                throw cause;
            throw new XcvmError('INVALID_ARGUMENT', `the image cannot be decoded: ${cause.message}`, { cause });
        }
    if (typeof OffscreenCanvas !== 'function')
        throw new XcvmError('INVALID_ARGUMENT', `the image is ${describe(image)}; expected pixels ({ data, width, height }), or a file's path, Blob or bytes`);
    const width = source?.naturalWidth ?? source?.videoWidth ?? source?.displayWidth ?? source?.width;
    const height = source?.naturalHeight ?? source?.videoHeight ?? source?.displayHeight ?? source?.height;
    if (!(width > 0 && height > 0))
        throw new XcvmError('INVALID_ARGUMENT', `the image is ${describe(image)} without a size; expected an image that is loaded`);
    const context = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
    context.drawImage(source, 0, 0);
    if (source !== image)
        source.close();
    return checkPixels(context.getImageData(0, 0, width, height));
}

let decoder = null;
/* Decodes an image file with the VM. */
async function decodePixels(bytes) {
    const { Program } = await import('./index.js');
    decoder ??= Program.assemble('xcvm 1\ninput file u8[N]\noutput pixels u8[HxWx3]\n$1 = In(name="file")\n$2 = ImageDecoder($1, pixel_format=RGB)\nOut($2, name="pixels")\n');
    const session = (await decoder).createSession({ threads: 1 });
    try {
        const { data, dims: [height, width] } = session.run({ file: bytes }).pixels;
        return { data, width, height, channels: 3 };
    } finally {
        session.dispose();
    }
}

/* ---- Sizes ---- */

/* Weights of the pixels from `from` to `to` of `size` for each of `count` pixels, as Pillow's precompute_coeffs. */
function weightsOf(filter, size, from, to, count) {
    const scale = (to - from) / count, stretch = Math.max(1, scale), support = filter.support * stretch;
    return Array.from({ length: count }, (_, i) => {
        const center = from + (i + 0.5) * scale;
        const first = Math.max(0, Math.trunc(center - support + 0.5)), end = Math.min(size, Math.trunc(center + support + 0.5));
        const weights = [];
        for (let x = first; x < end; x++)
            weights.push(filter.weight((x - center + 0.5) / stretch));
        const sum = weights.reduce((a, b) => a + b, 0);
        return { first, weights: weights.map((weight) => {
            const scaled = (sum !== 0 ? weight / sum : weight) * PRECISION;
            return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
        }) };
    });
}

/* One direction of a change of size: `lines` lines, whose pixels are `step` apart. */
function filterLines(from, to, weights, channels, lines, fromLine, fromStep, toLine, toStep) {
    for (let line = 0; line < lines; line++)
        weights.forEach(({ first, weights: list }, i) => {
            for (let c = 0; c < channels; c++) {
                let sum = PRECISION / 2, at = line * fromLine + first * fromStep + c;
                for (let k = 0; k < list.length; k++, at += fromStep)
                    sum += from[at] * list[k];
                to[line * toLine + i * toStep + c] = Math.floor(sum / PRECISION);
            }
        });
}

/** Changes the size of pixels. `box` is the part [left, top, right, bottom] of the image; `filter` is 'bilinear' (default), 'bicubic'
 * or 'nearest'. */
export function resizePixels(image, width, height, { filter = 'bilinear', box } = {}) {
    const { data, width: w, height: h, channels } = checkPixels(image);
    checkSize(width, 'the width');
    checkSize(height, 'the height');
    choose(filter, Object.keys(FILTERS), 'the filter');
    const [left, top, right, bottom] = box ?? [0, 0, w, h];
    if (!(left >= 0 && top >= 0 && left < right && top < bottom && right <= w && bottom <= h))
        throw new XcvmError('OUT_OF_RANGE', `the box [${[left, top, right, bottom]}] is not inside the image of ${w} x ${h}`);
    const result = new Uint8ClampedArray(width * height * channels);
    if (filter === 'nearest') {
        const row = Array.from({ length: width }, (_, x) => Math.min(w - 1, Math.floor(left + (x + 0.5) * (right - left) / width)));
        for (let y = 0; y < height; y++) {
            const from = Math.min(h - 1, Math.floor(top + (y + 0.5) * (bottom - top) / height)) * w;
            for (let x = 0; x < width; x++)
                for (let c = 0; c < channels; c++)
                    result[(y * width + x) * channels + c] = data[(from + row[x]) * channels + c];
        }
        return { data: result, width, height, channels };
    }
    let middle = data;
    if (width !== w || left !== 0 || right !== w) {
        middle = new Uint8ClampedArray(width * h * channels);
        filterLines(data, middle, weightsOf(FILTERS[filter], w, left, right, width), channels, h, w * channels, channels, width * channels, channels);
    }
    if (height === h && top === 0 && bottom === h)
        return { data: middle === data ? Uint8ClampedArray.from(data) : middle, width, height, channels };
    filterLines(middle, result, weightsOf(FILTERS[filter], h, top, bottom, height), channels, width, channels, width * channels, channels, width * channels);
    return { data: result, width, height, channels };
}

/* Python's round: halves to even. */
function roundEven(x) {
    const floor = Math.floor(x);
    return x - floor === 0.5 ? floor + floor % 2 : Math.round(x);
}

/* 'cover' is ImageOps.fit of Pillow, and 'contain' ImageOps.pad. */
function fitPixels(image, width, height, { fit = 'stretch', filter = 'bilinear', background = 0 }) {
    const { width: w, height: h, channels } = image;
    choose(fit, FITS, 'fit');
    if (fit === 'stretch' || w * height === h * width)
        return resizePixels(image, width, height, { filter });
    if (fit === 'cover') {
        const wide = w / h >= width / height, cropWidth = wide ? width / height * h : w, cropHeight = wide ? h : w / (width / height);
        const left = (w - cropWidth) * 0.5, top = (h - cropHeight) * 0.5;
        return resizePixels(image, width, height, { filter, box: [left, top, left + cropWidth, top + cropHeight] });
    }
    const wide = w / h > width / height, innerWidth = wide ? width : Math.max(1, roundEven(w / h * height));
    const innerHeight = wide ? Math.max(1, roundEven(h / w * width)) : height;
    const inner = resizePixels(image, innerWidth, innerHeight, { filter }), color = perChannel(background, Math.min(3, channels), 'background');
    const data = new Uint8ClampedArray(width * height * channels);
    const x0 = roundEven((width - innerWidth) * 0.5), y0 = roundEven((height - innerHeight) * 0.5);
    for (let i = 0; i < width * height; i++)
        for (let c = 0; c < channels; c++)
            data[i * channels + c] = color[c] ?? 255;
    for (let y = 0; y < innerHeight; y++)
        data.set(inner.data.subarray(y * innerWidth * channels, (y + 1) * innerWidth * channels), ((y0 + y) * width + x0) * channels);
    return { data, width, height, channels };
}

/* ---- Tensors ---- */

/* Options that follow from a declared input such as f32[1x3x224x224]. */
function optionsOf({ name, kind, dtype, dims }) {
    const shape = (dims ?? []).length === 4 ? dims.slice(1) : dims ?? [];
    const at = kind === 'tensor' && shape.length === 3 ? [3, 1, 4].flatMap((count) => [0, 2].filter((i) => shape[i] === count))[0] : undefined;
    if (at === undefined)
        throw new XcvmError('INVALID_ARGUMENT', `input "${name}" is no image: the shape is ${dims === null ? 'unknown' : `[${dims.map((dim) => dim ?? '?').join(', ')}]`}; expected 1, 3 or 4 channels, height and width`);
    const [height, width] = at === 0 ? shape.slice(1) : shape;
    return {
        layout: `${dims.length === 4 ? 'N' : ''}${at === 0 ? 'CHW' : 'HWC'}`, order: { 1: 'gray', 3: 'RGB', 4: 'RGBA' }[shape[at]], dtype: dtype ?? 'f32',
        ...(typeof width === 'number' ? { width } : {}), ...(typeof height === 'number' ? { height } : {}),
        ...(dtype === 'u8' ? { scale: 1 } : {}),
    };
}

/** Makes a tensor of pixels. An element is (pixel * scale - mean) / std. */
export function pixelsToTensor(pixels, options = {}) {
    let image = checkPixels(pixels);
    const known = options.input ? optionsOf(options.input) : {};
    const { layout = 'NCHW', order = 'RGB', dtype = 'f32', ...sizes } = { ...known, ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) };
    const { width = image.width, height = image.height, scale = dtype === 'u8' ? 1 : 1 / 255 } = sizes;
    choose(layout, LAYOUTS, 'layout');
    choose(order, Object.keys(ORDERS), 'order');
    choose(dtype, ['f32', 'f64', 'u8'], 'dtype');
    const from = ORDERS[order], mean = perChannel(options.mean ?? 0, from.length, 'mean'), std = perChannel(options.std ?? 1, from.length, 'std');
    if (options.alpha === 'blend')
        image = blend(image, perChannel(options.background ?? 255, 3, 'background'));
    image = fitPixels(image, checkSize(width, 'the width'), checkSize(height, 'the height'), options);
    const { data, channels } = image, count = width * height, values = new (arrayType(dtype).Type)(from.length * count), last = layout.endsWith('C');
    from.forEach((channel, c) => {
        for (let i = 0; i < count; i++) {
            const at = i * channels;
            const pixel = channels === 1 ? channel === 3 ? 255 : data[at]
                : channel === -1 ? (data[at] * 19595 + data[at + 1] * 38470 + data[at + 2] * 7471 + 0x8000) >> 16
                : channel < channels ? data[at + channel] : 255;
            const value = (pixel * scale - mean[c]) / std[c];
            values[last ? i * from.length + c : c * count + i] = dtype === 'u8' ? Math.min(255, Math.max(0, Math.round(value))) : value;
        }
    });
    const dims = last ? [height, width, from.length] : [from.length, height, width];
    return new Tensor(dtype, values, layout.startsWith('N') ? [1, ...dims] : dims);
}

/* Draws pixels over a color. */
function blend({ data, width, height, channels }, color) {
    if (channels !== 4)
        return { data, width, height, channels };
    const result = new Uint8ClampedArray(3 * width * height);
    for (let i = 0; i < width * height; i++)
        for (let c = 0; c < 3; c++)
            result[3 * i + c] = Math.round((data[4 * i + c] * data[4 * i + 3] + color[c] * (255 - data[4 * i + 3])) / 255);
    return { data: result, width, height, channels: 3 };
}

/** Makes a tensor of an image, as `readPixels` and `pixelsToTensor`. */
export async function imageToTensor(image, options = {}) { return pixelsToTensor(await readPixels(image), options); }

/** Makes ImageData (or an object with `data`, `width` and `height` where there is none) of a tensor; the reverse of pixelsToTensor. */
export function tensorToImage(tensor, options = {}) {
    const { dims, data } = tensor, scale = options.scale ?? (tensor.dtype === 'u8' ? 1 : 1 / 255);
    const layout = choose(options.layout ?? (dims.length === 4 ? 'NCHW' : 'CHW'), LAYOUTS, 'layout'), last = layout.endsWith('C');
    const shape = layout.startsWith('N') ? dims.slice(1) : dims;
    const [height, width, channels] = last ? shape : [shape[1], shape[2], shape[0]];
    const order = choose(options.order ?? { 1: 'gray', 3: 'RGB', 4: 'RGBA' }[channels], Object.keys(ORDERS), 'order'), from = ORDERS[order];
    if (dims.length !== layout.length || (layout.startsWith('N') && dims[0] !== 1) || from.length !== channels)
        throw new XcvmError('SHAPE_MISMATCH', `the tensor has the shape [${dims}]; expected one image of layout ${layout} and order ${order}`);
    checkSize(width, 'the width');
    checkSize(height, 'the height');
    const mean = perChannel(options.mean ?? 0, channels, 'mean'), std = perChannel(options.std ?? 1, channels, 'std');
    const pixels = new Uint8ClampedArray(4 * width * height), count = width * height;
    for (let i = 0; i < count; i++) {
        pixels[4 * i + 3] = 255;
        from.forEach((channel, c) => {
            const value = (Number(data[last ? i * channels + c : c * count + i]) * std[c] + mean[c]) / scale;
            if (channel >= 0)
                pixels[4 * i + channel] = Math.round(value);
            else
                pixels.fill(Math.min(255, Math.max(0, Math.round(value))), 4 * i, 4 * i + 3);
        });
    }
    return typeof ImageData === 'function' ? new ImageData(pixels, width, height) : { data: pixels, width, height };
}
