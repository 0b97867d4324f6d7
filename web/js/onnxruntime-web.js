/* A drop-in module for onnxruntime-web: InferenceSession, Tensor and env over the VM. */
import { Program, Tensor as VmTensor, XcvmError } from './index.js';
import { compileSync, initCompiler } from './compiler.js';
import { readBytes } from './source.js';

/* onnxruntime's element types: the VM's name and the typed array. */
const TYPES = {
    float32: ['f32', Float32Array], uint8: ['u8', Uint8Array], int8: ['i8', Int8Array], uint16: ['u16', Uint16Array],
    int16: ['i16', Int16Array], int32: ['i32', Int32Array], int64: ['i64', BigInt64Array], string: ['str', Array],
    bool: ['bool', Uint8Array], float16: ['f16', globalThis.Float16Array ?? Uint16Array], float64: ['f64', Float64Array],
    uint32: ['u32', Uint32Array], uint64: ['u64', BigUint64Array], uint4: ['u4', Uint8Array], int4: ['i4', Int8Array],
};
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([name, [dtype]]) => [dtype, name]));

export class Tensor {
    constructor(first, second, third) {
        let type = first, data = second, dims = third;
        if (typeof first === 'object' && first !== null && !Array.isArray(first) && !ArrayBuffer.isView(first)) {
            ({ type, dims } = first);
            data = first.data;
            if (data === undefined)
                throw new TypeError(`tensors at location '${first.location}' are not supported; expected 'cpu'`);
        } else if (typeof first !== 'string') {
            data = first;
            dims = second;
            type = Array.isArray(data)
                ? typeof data[0] === 'string' ? 'string' : typeof data[0] === 'boolean' ? 'bool' : null
                : data instanceof Uint8ClampedArray ? 'uint8'
                    : Object.keys(TYPES).find((name) => !['bool', 'uint4', 'int4'].includes(name) && data instanceof TYPES[name][1]);
        }
        const known = TYPES[type];
        if (!known)
            throw new TypeError(`Unsupported tensor type: ${type}.`);
        const Type = known[1];
        if (type !== 'string' && Array.isArray(data)) {
            if (type === 'float16' && Type === Uint16Array)
                throw new TypeError('Creating a float16 tensor from number array is not supported. Please use Uint16Array as data.');
            data = type === 'int64' || type === 'uint64' ? Type.from(data, BigInt) : Type.from(data, Number);
        } else if (data instanceof Uint8ClampedArray && Type === Uint8Array) {
            data = Uint8Array.from(data);
        } else if (!(data instanceof Type) && !(type === 'float16' && data instanceof Uint16Array)) {
            throw new TypeError(`A ${type} tensor's data must be type of ${Type.name}`);
        }
        dims = Array.from(dims ?? [data.length]);
        for (const dim of dims) {
            if (typeof dim !== 'number' || !Number.isSafeInteger(dim))
                throw new TypeError(`dims must be integers, got: ${dim}`);
            if (dim < 0)
                throw new RangeError(`dims must be a non-negative integer, got: ${dim}`);
        }
        const size = dims.reduce((product, dim) => product * dim, 1);
        if (size !== data.length && !((type === 'uint4' || type === 'int4') && Math.ceil(size / 2) === data.length))
            throw new Error(`Tensor's size(${size}) does not match data length(${data.length}).`);
        this.type = type;
        this.dims = Object.freeze(dims);
        this.size = size;
        this.cpuData = data;
        this.location = 'cpu';
    }
    get data() {
        if (this.location === 'none')
            throw new Error('The data is not on CPU. Use `getData()` to download GPU data to CPU, or use `texture` or `gpuBuffer` property to access the GPU data directly.');
        return this.cpuData;
    }
    async getData() { return this.data; }
    dispose() {
        this.cpuData = undefined;
        this.location = 'none';
    }
    reshape(dims) { return new Tensor(this.type, this.data, dims); }

    /** Makes a tensor of shape [1, 3 or 4, height, width], or [1, height, width, 3 or 4], from ImageData, an ImageBitmap,
     * an image element or a URL. */
    static async fromImage(image, options = {}) {
        if (typeof image === 'string') {
            const response = await fetch(image);
            image = await createImageBitmap(await response.blob());
        }
        if (!(typeof ImageData === 'function' && image instanceof ImageData)) {
            const width = options.resizedWidth ?? image.naturalWidth ?? image.width;
            const height = options.resizedHeight ?? image.naturalHeight ?? image.height;
            const context = new OffscreenCanvas(width, height).getContext('2d');
            context.drawImage(image, 0, 0, width, height);
            image = context.getImageData(0, 0, width, height);
        }
        return pixelsToTensor(image, options);
    }

    toImageData(options = {}) {
        const last = options.tensorLayout === 'NHWC', [height, width] = last ? this.dims.slice(1, 3) : this.dims.slice(2, 4);
        const channels = last ? this.dims[3] : this.dims[1], pixels = width * height;
        const mean = spread(options.norm?.mean ?? 255), bias = spread(options.norm?.bias ?? 0);
        const image = new ImageData(width, height), bgr = (options.format ?? 'RGB').startsWith('BGR');
        for (let i = 0; i < pixels; i++)
            for (let c = 0; c < 4; c++) {
                const from = channels === 1 ? c < 3 ? 0 : -1 : c < 3 && bgr ? 2 - c : c;
                image.data[4 * i + c] = from < 0 || from >= channels ? 255
                    : (this.data[last ? i * channels + from : from * pixels + i] - bias[from]) * mean[from];
            }
        return image;
    }

    toDataURL(options) {
        const image = this.toImageData(options), canvas = document.createElement('canvas');
        canvas.width = image.width;
        canvas.height = image.height;
        canvas.getContext('2d').putImageData(image, 0, 0);
        return canvas.toDataURL();
    }
}

const spread = (number) => Array.isArray(number) ? [...number, ...(number.length < 4 ? [255] : [])] : [number, number, number, number];

function pixelsToTensor({ data, width, height }, options) {
    const format = options.tensorFormat ?? 'RGB', channels = format === 'RGBA' ? 4 : 3, pixels = width * height;
    const mean = spread(options.norm?.mean ?? 255), bias = spread(options.norm?.bias ?? 0), last = options.tensorLayout === 'NHWC';
    const values = new Float32Array(channels * pixels);
    for (let i = 0; i < pixels; i++)
        for (let c = 0; c < channels; c++)
            values[last ? i * channels + c : c * pixels + i] = (data[4 * i + (c < 3 && format === 'BGR' ? 2 - c : c)] + bias[c]) / mean[c];
    const shape = last ? [1, height, width, channels] : [1, channels, height, width];
    return options.dataType === 'uint8' ? new Tensor('uint8', Uint8Array.from(values), shape) : new Tensor('float32', values, shape);
}

/* Values of runs: tensors; sequences and maps are arrays of them. */
function fromVm(value) {
    if (value === null)
        return null;
    if (value.items)
        return value.items.map(fromVm);
    return new Tensor(NAMES[value.dtype] ?? value.dtype, value.dtype === 'f16' && globalThis.Float16Array ? new Float16Array(value.data.buffer) : value.data, value.dims);
}

function toVm({ name, dims }, value) {
    if (!value || typeof value !== 'object' || !TYPES[value.type])
        throw new TypeError(`input '${name}' must be a Tensor.`);
    const data = value.data;
    const bytes = value.type === 'int4' ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
        : value.type === 'float16' && !(data instanceof Uint16Array) ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
    /* onnxruntime takes one element of any rank for a scalar. */
    return new VmTensor(TYPES[value.type][0], bytes, dims?.length === 0 && value.size === 1 ? [] : value.dims);
}

/* Programs and models are protocol buffers of similar fields. Programs of `xcvm compile` have its name as their producer;
 * they need no compiler. */
const isProbablyProgram = (bytes) => bytes[2] === 0x12 && String.fromCharCode(...bytes.subarray(4, 8)) === 'xcvm';

const metadata = (infos) => Object.freeze(infos.map(({ name, kind, dtype, dims }) => kind === 'tensor' || kind === 'null'
    ? { name, isTensor: true, type: NAMES[dtype] ?? 'float32', shape: (dims ?? []).map((dim, i) => dim ?? `dim_${i}`) }
    : { name, isTensor: false }));

export class InferenceSession {
    #program;
    #session;
    #queue = Promise.resolve();

    constructor(program) {
        this.#program = program;
        this.#session = program.createSession();
        this.handler = this;
    }

    /** create(path | ArrayBuffer | Uint8Array, options?) and create(ArrayBuffer, byteOffset, byteLength?, options?). The
     * model is ONNX, or a program of XCVM. */
    static async create(model, ...rest) {
        let bytes;
        if (model instanceof ArrayBuffer && typeof rest[0] === 'number') {
            const [offset, length] = rest;
            bytes = new Uint8Array(model, offset, typeof length === 'number' ? length : model.byteLength - offset);
        } else {
            bytes = await readBytes(model, 'the model');
        }
        const options = rest.find((value) => value !== null && typeof value === 'object') ?? {};
        if (options.externalData?.length)
            throw new Error('external data is not supported; store the weights in the model, or compile it with `xcvm compile`');
        const dims = options.freeDimensionOverrides, threads = env.wasm.numThreads ?? 1;
        const program = async (loading) => {
            try {
                return new InferenceSession(await Program.load(bytes, { threads, ...await loading() }));
            } catch (error) {
                if (!(error instanceof XcvmError) || error.status !== 'INVALID_PROGRAM')
                    throw error;
                return null;
            }
        };
        const compiler = async () => ({ module: await initCompiler(env.wasm.xcvmCompiler) });
        const session = (isProbablyProgram(bytes) && await program(() => {})) || await program(compiler);
        if (session)
            return session;
        const { module } = await compiler();
        return new InferenceSession(await Program.load(compileSync(bytes, dims ? { dims } : {}, module), { threads, module }));
    }

    get inputNames() { return this.#program.inputs.map((info) => info.name); }
    get outputNames() { return this.#program.outputs.map((info) => info.name); }
    get inputMetadata() { return metadata(this.#program.inputs); }
    get outputMetadata() { return metadata(this.#program.outputs); }

    /** run(feeds, options?) and run(feeds, fetches, options?). `fetches` is an array of output names, or an object. */
    run(feeds, fetches, options) {
        const result = this.#queue.then(() => this.#run(feeds, fetches, options));
        this.#queue = result.catch(() => {});
        return result;
    }

    async #run(feeds, fetches) {
        if (!feeds || typeof feeds !== 'object' || feeds instanceof Tensor || Array.isArray(feeds))
            throw new TypeError("'feeds' must be an object that use input names as keys and OnnxValue as corresponding values.");
        for (const name of this.inputNames)
            if (feeds[name] === undefined)
                throw new Error(`input '${name}' is missing in 'feeds'.`);
        let wanted = this.outputNames;
        if (Array.isArray(fetches))
            wanted = fetches;
        else if (fetches && typeof fetches === 'object' && Object.keys(fetches).some((name) => wanted.includes(name)))
            wanted = wanted.filter((name) => name in fetches);
        for (const name of wanted)
            if (!this.outputNames.includes(name))
                throw new RangeError(`'fetches' contains invalid output name: ${name}.`);
        const inputs = {};
        for (const info of this.#program.inputs)
            inputs[info.name] = toVm(info, feeds[info.name]);
        const results = await this.#session.runAsync(inputs), outputs = {};
        for (const name of wanted)
            outputs[name] = fromVm(results[name]);
        return outputs;
    }

    async release() {
        await this.#queue;
        this.#program.dispose();
    }
    async dispose() { await this.release(); }
    startProfiling() {}
    endProfiling() {}
}

/** Settings of onnxruntime-web. Those that choose a backend have no effect. `wasm.numThreads` is the number of threads of
 * sessions created later (0: one per processor). `wasm.xcvmCompiler` is the address of xcvm-compiler.wasm. */
export const env = {
    wasm: { numThreads: 1, simd: true, proxy: false, wasmPaths: undefined, wasmBinary: undefined, initTimeout: 0, xcvmCompiler: undefined },
    webgl: {}, webgpu: {}, versions: { common: '1.30.0', web: '1.30.0' }, debug: false, trace: false, logLevel: 'warning',
};
export const registerBackend = () => {};
export const listSupportedBackends = () => [{ name: 'wasm', bundled: true }, { name: 'cpu', bundled: true }];
export const TRACE = () => {};
export const TRACE_FUNC_BEGIN = () => {};
export const TRACE_FUNC_END = () => {};
export default { InferenceSession, Tensor, env, registerBackend, listSupportedBackends };
