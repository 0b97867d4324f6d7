/* Tensors and other values: JavaScript's form, and copies to and from the memory of an instance. */
import { XcvmError, describe } from './runtime.js';

/* name: [number, typed array, elements of the typed array for each element of the tensor]. Types without a typed array
 * of their own are bytes: f24 has three, elements of fewer than 8 bits are packed. */
const TYPES = {
    f32: [1, Float32Array, 1], u8: [2, Uint8Array, 1], i8: [3, Int8Array, 1], u16: [4, Uint16Array, 1],
    i16: [5, Int16Array, 1], i32: [6, Int32Array, 1], i64: [7, BigInt64Array, 1], str: [8, Array, 1],
    bool: [9, Uint8Array, 1], f16: [10, Uint16Array, 1], f64: [11, Float64Array, 1], u32: [12, Uint32Array, 1],
    u64: [13, BigUint64Array, 1], c64: [14, Float32Array, 2], c128: [15, Float64Array, 2], bf16: [16, Uint16Array, 1],
    f8e4m3fn: [17, Uint8Array, 1], f8e4m3fnuz: [18, Uint8Array, 1], f8e5m2: [19, Uint8Array, 1],
    f8e5m2fnuz: [20, Uint8Array, 1], u4: [21, Uint8Array, 1 / 2], i4: [22, Uint8Array, 1 / 2],
    f4e2m1: [23, Uint8Array, 1 / 2], f8e8m0: [24, Uint8Array, 1], u2: [25, Uint8Array, 1 / 4],
    i2: [26, Uint8Array, 1 / 4], f24: [100, Uint8Array, 3],
};
const NAMES = new Map(Object.entries(TYPES).map(([name, [number]]) => [number, name]));
const KINDS = ['null', 'tensor', 'sequence', 'optional', 'map', 'opaque'];
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/* The element type of a typed array where nothing else says it. */
const DEFAULTS = [['f32', Float32Array], ['f64', Float64Array], ['u8', Uint8Array], ['u8', Uint8ClampedArray],
    ['i8', Int8Array], ['u16', Uint16Array], ['i16', Int16Array], ['u32', Uint32Array], ['i32', Int32Array],
    ['i64', BigInt64Array], ['u64', BigUint64Array]];

export const dtypeName = (number) => NAMES.get(number) ?? null;
export const kindName = (number) => KINDS[number] ?? 'null';

function elementCount(dims) {
    return dims.reduce((product, dim) => product * dim, 1);
}

function checkDims(dims, where) {
    if (!Array.isArray(dims) || dims.length > 8 || !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0))
        throw new XcvmError('INVALID_ARGUMENT', `${where}: the shape is ${Array.isArray(dims) ? `[${dims}]` : describe(dims)}; expected an array of at most 8 integers of at least 0`);
}

/** A dense row-major tensor. */
export class Tensor {
    /** `data` is a typed array of the element type, or an array of strings. */
    constructor(dtype, data, dims) {
        const type = TYPES[dtype];
        if (!type)
            throw new XcvmError('INVALID_ARGUMENT', `"${dtype}" is no element type; expected one of ${Object.keys(TYPES).join(', ')}`);
        if (!(data instanceof type[1]) && !(type[1] === Uint8Array && data instanceof Uint8ClampedArray))
            throw new XcvmError('TYPE_MISMATCH', `a tensor of ${dtype} has ${describe(data)}; expected ${type[1].name}`);
        dims = dims === undefined ? [data.length / type[2]] : Array.from(dims);
        checkDims(dims, 'a tensor');
        if (data.length !== Math.ceil(elementCount(dims) * type[2]))
            throw new XcvmError('SHAPE_MISMATCH', `a tensor of shape [${dims}] has ${data.length} elements; expected ${Math.ceil(elementCount(dims) * type[2])}`);
        this.dtype = dtype;
        this.dims = dims;
        this.data = data;
    }
    get size() { return elementCount(this.dims); }
}

/** A tensor in the memory of an instance. `data` is a view of that memory, without a copy. */
export class HeapTensor {
    #runtime;
    #at;
    #isValid;
    #view = null;
    constructor(runtime, value, isValid) {
        const { dtype, dims, at } = tensorInfo(runtime, value);
        this.#runtime = runtime;
        this.#at = at;
        this.#isValid = isValid;
        this.dtype = dtype;
        this.dims = dims;
    }
    get size() { return elementCount(this.dims); }
    /** The elements. Read it again after every run: memory that grows replaces the view. */
    get data() {
        if (!this.#isValid())
            throw new XcvmError('INVALID_ARGUMENT', 'the tensor is no longer in memory: its session has run again or is disposed');
        if (this.#view === null || this.#view.buffer !== this.#runtime.buffer) {
            const [, Type, each] = TYPES[this.dtype];
            this.#view = new Type(this.#runtime.buffer, this.#at, Math.ceil(this.size * each));
        }
        return this.#view;
    }
}

function tensorInfo(runtime, value) {
    const rank = runtime.call('web_value_rank', value), at = runtime.call('web_value_dims', value) >>> 0;
    const dims = [];
    for (let i = 0; i < rank; i++)
        dims.push(Number(runtime.view.getBigInt64(at + 8 * i, true)));
    return { dtype: dtypeName(runtime.call('web_value_dtype', value)), dims, at: runtime.call('web_value_data', value) >>> 0 };
}

/** Copies a value out of the memory of an instance: a Tensor, { kind, items }, or null. Values that share memory become
 * one object: a list whose items share items would have exponentially many copies. */
export function readValue(runtime, value, seen = new Map()) {
    const kind = value ? kindName(runtime.call('web_value_kind', value)) : 'null';
    if (kind === 'null' || kind === 'opaque')
        return null;
    const isTensor = kind === 'tensor', count = isTensor ? 0 : runtime.call('web_value_count', value);
    const info = isTensor ? tensorInfo(runtime, value) : null;
    const at = isTensor ? info.at : count === 0 ? 0 : runtime.call('web_value_item', value, 0) >>> 0;
    const key = `${kind} ${at} ${isTensor ? `${info.dtype} ${info.dims}` : count}`;
    if (at !== 0 && seen.has(key))
        return seen.get(key);
    const copy = isTensor ? readTensor(runtime, value, info) : { kind, items: [] };
    seen.set(key, copy);
    for (let i = 0; i < count; i++)
        copy.items.push(readValue(runtime, runtime.call('web_value_item', value, i) >>> 0, seen));
    return copy;
}

function readTensor(runtime, value, { dtype, dims, at }) {
    const [, Type, each] = TYPES[dtype];
    if (dtype === 'str')
        return new Tensor('str', readStrings(runtime, value, elementCount(dims)), dims);
    return new Tensor(dtype, at === 0 ? new Type(0) : new Type(runtime.buffer, at, Math.ceil(elementCount(dims) * each)).slice(), dims);
}

function readStrings(runtime, value, count) {
    const length = runtime.allocate(4), strings = [];
    for (let i = 0; i < count; i++) {
        const at = runtime.call('web_value_string', value, i, length) >>> 0;
        strings.push(decoder.decode(runtime.bytes.slice(at, at + runtime.view.getUint32(length, true))));
    }
    runtime.release(length);
    return strings;
}

/** Allocates a tensor with uninitialized elements. */
export function createTensor(runtime, dtype, dims) {
    const at = runtime.allocate(64);
    try {
        dims.forEach((dim, i) => runtime.view.setBigInt64(at + 8 * i, BigInt(dim), true));
        return runtime.address('web_tensor_create', TYPES[dtype][0], dims.length, at);
    } finally {
        runtime.release(at);
    }
}

/* The shape of `count` elements, from the declared one, in which one dimension may be dynamic. */
function inferDims(info, count, where) {
    const dims = info.dims?.map((dim) => typeof dim === 'number' ? dim : -1) ?? [count];
    const open = dims.filter((dim) => dim < 0).length;
    const known = dims.reduce((product, dim) => dim < 0 ? product : product * dim, 1);
    if (open === 1 && known > 0 && count % known === 0)
        dims[dims.indexOf(-1)] = count / known;
    else if (open > 1)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: the shape [${info.dims.map((dim) => dim ?? '?').join(', ')}] has several dynamic dimensions; give a Tensor with its shape`);
    else if (open === 1 || known !== count)
        throw new XcvmError('SHAPE_MISMATCH', `${where}: ${count} elements are given; expected shape [${info.dims.map((dim) => dim ?? '?').join(', ')}]`);
    return dims;
}

/** Copies JavaScript's form of a value into the memory of an instance. `info` is its declared type. Accepts Tensor-like
 * objects, typed arrays, arrays of numbers or strings, numbers, strings, booleans, big integers, null, and
 * { kind, items }. Returns the address of a counted value. */
export function writeValue(runtime, given, info, where) {
    if (given === undefined)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: no value is given`);
    if (given === null || Array.isArray(given?.items))
        return writeList(runtime, given === null ? { kind: 'optional', items: [] } : given, where);
    if (info.kind !== 'tensor' && info.kind !== 'null' && info.kind !== undefined)
        throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(given)} is given; expected { kind: '${info.kind}', items }`);
    const isTensor = typeof given === 'object' && 'data' in given && 'dims' in given;
    let data = isTensor ? given.data : given;
    let dtype = (isTensor ? given.dtype : null) ?? info.dtype;
    if (typeof data === 'number' || typeof data === 'bigint' || typeof data === 'string' || typeof data === 'boolean')
        data = [data];
    if (!Array.isArray(data) && !ArrayBuffer.isView(data))
        throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(data)} is given; expected a typed array${info.dtype ? ` of ${info.dtype}` : ''}, an array or a Tensor`);
    dtype ??= Array.isArray(data) ? typeof data[0] === 'string' ? 'str' : 'f32' : DEFAULTS.find(([, Type]) => data instanceof Type)?.[0];
    const type = TYPES[dtype];
    if (!type)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: "${dtype}" is no element type`);
    const [, Type, each] = type;
    if (ArrayBuffer.isView(data) && isDetached(data.buffer))
        throw new XcvmError('INVALID_ARGUMENT', `${where}: the buffer of the ${describe(data)} is detached: it was transferred elsewhere`);
    const dims = isTensor ? Array.from(given.dims) : inferDims(info, data.length / each, where);
    checkDims(dims, where);
    const count = elementCount(dims);
    if (!isTensor && given !== data && elementCount(dims) !== 1)
        throw new XcvmError('SHAPE_MISMATCH', `${where}: one element is given; expected shape [${dims}]`);
    if (data.length !== Math.ceil(count * each))
        throw new XcvmError('SHAPE_MISMATCH', `${where}: a tensor of shape [${dims}] has ${data.length} elements; expected ${Math.ceil(count * each)}`);
    if (dtype === 'str')
        return writeStrings(runtime, data, dims, where);
    if (Array.isArray(data)) {
        try {
            data = Type === BigInt64Array || Type === BigUint64Array ? Type.from(data, BigInt) : Type.from(data, Number);
        } catch (cause) {
            throw new XcvmError('TYPE_MISMATCH', `${where}: an element cannot be converted to ${dtype}: ${cause.message}`, { cause });
        }
    } else if (!accepts(Type, data, dtype)) {
        throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(data)} is given; expected ${Type.name} (${dtype})`);
    }
    const tensor = createTensor(runtime, dtype, dims);
    runtime.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), runtime.call('web_value_data', tensor) >>> 0);
    return tensor;
}

/* ArrayBuffer.prototype.detached exists in newer engines only. */
function isDetached(buffer) {
    try {
        return new Uint8Array(buffer, 0, 0).length !== 0;
    } catch {
        return true;
    }
}

/* Float16Array exists in newer engines only. */
function accepts(Type, data, dtype) {
    return data instanceof Type || (Type === Uint8Array && data instanceof Uint8ClampedArray) ||
        (dtype === 'f16' && data.constructor.name === 'Float16Array');
}

function writeStrings(runtime, strings, dims, where) {
    const pieces = strings.map((text) => {
        if (typeof text !== 'string')
            throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(text)} is given; expected strings`);
        return encoder.encode(text);
    });
    const at = runtime.allocate(64 + 4 * pieces.length + pieces.reduce((sum, piece) => sum + piece.length, 0));
    try {
        dims.forEach((dim, i) => runtime.view.setBigInt64(at + 8 * i, BigInt(dim), true));
        let text = at + 64 + 4 * pieces.length;
        pieces.forEach((piece, i) => {
            runtime.view.setUint32(at + 64 + 4 * i, piece.length, true);
            runtime.bytes.set(piece, text);
            text += piece.length;
        });
        return runtime.address('web_strings_create', dims.length, at, at + 64 + 4 * pieces.length, at + 64, pieces.length);
    } finally {
        runtime.release(at);
    }
}

function writeList(runtime, { kind, items }, where) {
    const number = KINDS.indexOf(kind), values = [];
    if (number < 2)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: the kind is ${describe(kind)}; expected 'sequence', 'optional' or 'map'`);
    try {
        items.forEach((item, i) => values.push(writeValue(runtime, item, {}, `${where}[${i}]`)));
        return runtime.with(new Uint8Array(Uint32Array.from(values).buffer),
            (at) => runtime.address('web_list_create', number, values.length, at));
    } finally {
        values.forEach((value) => runtime.broken || runtime.call('web_value_release', value));
    }
}
