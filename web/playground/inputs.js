/* Inputs of a program: random numbers, zeros, and pictures from a file, a drawing or the camera. */
import { Tensor } from '../js/index.js';
import { $, drawOn } from './page.js';

export const shapeText = (dims) => dims === null ? 'any' : dims.map((dim) => dim ?? '?').join(' × ') || 'scalar';

/* From 0..255 to what the network has learned from. The third number is the channel. */
const RANGES = {
    unit: (v) => v / 255,
    signed: (v) => v / 127.5 - 1,
    bytes: (v) => v,
    imagenet: (v, c) => (v / 255 - [0.485, 0.456, 0.406][c % 3]) / [0.229, 0.224, 0.225][c % 3],
};

/* Where an image's axes are in a shape, or null if the shape is none of an image. */
function imageAxes(dims) {
    if (dims === null || dims.length < 3)
        return null;
    const last = dims.length === 4 && dims[3] <= 4 && dims[1] > 4;
    const [channels, height, width] = last ? [dims[3], dims[1], dims[2]] : dims.slice(-3);
    return channels <= 4 && height > 1 && width > 1 ? { last, channels, height, width } : null;
}

let stream = null, bitmap = null;

/* The picture that the user has chosen: something that a canvas can draw, and its size. */
async function picture(source) {
    if (source === 'drawing')
        return [$('pad'), $('pad').width, $('pad').height];
    if (source === 'camera') {
        await openCamera();
        return [$('video'), $('video').videoWidth, $('video').videoHeight];
    }
    if (bitmap === null)
        throw new Error('Choose an image first.');
    return [bitmap, bitmap.width, bitmap.height];
}

export async function openCamera() {
    if (stream !== null)
        return;
    if (!navigator.mediaDevices?.getUserMedia)
        throw new Error('This page has no camera: browsers permit it to pages from https or localhost only.');
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment' } })
        .catch((error) => { throw new Error(`The camera is not available: ${error.message}`); });
    $('video').srcObject = stream;
    await $('video').play();
}

export function closeCamera() {
    stream?.getTracks().forEach((track) => track.stop());
    stream = null;
    $('video').srcObject = null;
}

/* Fills `data` with the middle of the picture, in the size and layout of the shape. A batch is the image repeated. */
async function fillImage(data, dims, source) {
    const { last, channels, height, width } = imageAxes(dims), [image, fullWidth, fullHeight] = await picture(source);
    const scale = Math.min(fullWidth / width, fullHeight / height), w = width * scale, h = height * scale;
    const canvas = $('preview'), range = RANGES[$('range').value], pixels = width * height;
    Object.assign(canvas, { width, height });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, (fullWidth - w) / 2, (fullHeight - h) / 2, w, h, 0, 0, width, height);
    const rgba = context.getImageData(0, 0, width, height).data;
    for (let i = 0; i < pixels; i++)
        for (let c = 0; c < channels; c++) {
            const value = channels === 1 ? 0.299 * rgba[4 * i] + 0.587 * rgba[4 * i + 1] + 0.114 * rgba[4 * i + 2] : rgba[4 * i + c];
            data[last ? i * channels + c : c * pixels + i] = range(value, c);
        }
    for (let at = channels * pixels; at < data.length; at *= 2)
        data.copyWithin(at, 0, Math.min(at, data.length - at));
    $('seen').hidden = false;
}

/* Binds all inputs of a session. Tensors are written in the VM's memory. */
export async function bindInputs(session) {
    const { program } = session, size = Math.max(1, Math.floor(Number($('dynamic').value)) || 1), source = $('source').value;
    let images = 0;
    for (const { name, kind, dtype, dims } of program.inputs) {
        if (kind !== 'tensor' || dtype === 'str')
            throw new Error(`The page cannot make the input ${name} of type ${kind === 'tensor' ? 'str' : kind}.`);
        const shape = (dims ?? []).map((dim) => typeof dim === 'number' ? dim : size);
        const isImage = source !== 'random' && source !== 'zeros' && (dtype === 'f32' || dtype === 'u8') && imageAxes(shape) !== null;
        const tensor = session.input(name, shape), { data } = tensor;
        if (isImage) {
            await fillImage(data, shape, source);
            images++;
        } else if (source !== 'zeros' && (dtype === 'f32' || dtype === 'f64')) {
            data.forEach((_, i) => { data[i] = Math.random(); });
        }
    }
    if (source !== 'random' && source !== 'zeros' && images === 0)
        throw new Error(`No input has the shape of an image: ${program.inputs.map(({ name, dims }) => `${name} is ${shapeText(dims)}`).join(', ')}.`);
}

/* The deadline of a run: the page waits for it. */
export const limits = () => ({ timeout: 1000 * Math.max(1, Number($('limit').value) || 10) });

/* Shows what belongs to the chosen source. */
export function chooseSource() {
    const source = $('source').value, isImage = source !== 'random' && source !== 'zeros';
    $('picture').hidden = source !== 'image';
    $('sketch').hidden = source !== 'drawing';
    $('film').hidden = source !== 'camera';
    $('range-label').hidden = !isImage;
    $('seen').hidden = true;
    if (source !== 'camera')
        closeCamera();
}

/* Calls `changed` after the user has chosen another source or file, with the problem if there is one, and `drawn` after each
 * part of a drawing. */
export function setUpInputs({ changed, drawn }) {
    $('source').onchange = () => { chooseSource(); changed(null); };
    $('image').onchange = async () => {
        bitmap?.close();
        bitmap = $('image').files[0] ? await createImageBitmap($('image').files[0]).catch(() => null) : null;
        changed(bitmap === null ? `${$('image').files[0]?.name} is no image that this browser can read.` : null);
    };
    $('erase').onclick = drawOn($('pad'), drawn);
}
