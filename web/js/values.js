/* Tensors and other values: JavaScript's form, and the plain form that engines read and write. */
import { XcvmError, describe } from './source.js';

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

/* The element type of a typed array where nothing else says it. */
const DEFAULTS = [['f32', Float32Array], ['f64', Float64Array], ['u8', Uint8Array], ['u8', Uint8ClampedArray],
    ['i8', Int8Array], ['u16', Uint16Array], ['i16', Int16Array], ['u32', Uint32Array], ['i32', Int32Array],
    ['i64', BigInt64Array], ['u64', BigUint64Array]];

export const dtypeName = (number) => NAMES.get(number) ?? null;
export const dtypeNumber = (name) => TYPES[name][0];
/** The typed array of an element type, and its elements for each element of the tensor. */
export const arrayType = (name) => ({ Type: TYPES[name][1], each: TYPES[name][2] });
export const kindName = (number) => KINDS[number] ?? 'null';
export const kindNumber = (name) => KINDS.indexOf(name);

export function elementCount(dims) {
    return dims.reduce((product, dim) => product * dim, 1);
}

/** Throws unless `dims` is a shape. */
export function checkDims(dims, where) {
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

/** A tensor in the VM's memory. `data` is a view of that memory, without a copy. */
export class HeapTensor {
    #memory;
    #at;
    #isValid;
    #view = null;
    /** Not for callers. `memory` returns the buffer, in which the elements begin at `at`. */
    constructor(dtype, dims, memory, at, isValid) {
        this.#memory = memory;
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
        const memory = this.#memory();
        if (this.#view === null || this.#view.buffer !== memory) {
            const [, Type, each] = TYPES[this.dtype];
            this.#view = new Type(memory, this.#at, Math.ceil(this.size * each));
        }
        return this.#view;
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

/** Checks JavaScript's form of a value and returns the plain form, without a copy of typed arrays. `info` is the declared
 * type. Accepts Tensor-like objects, typed arrays, arrays of numbers or strings, numbers, strings, booleans, big integers,
 * null, and { kind, items }. The plain form is { dtype, dims, bytes }, with `lengths` of strings, or { kind, items }. */
export function plainValue(given, info, where) {
    if (given === undefined)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: no value is given`);
    if (given === null || Array.isArray(given?.items))
        return plainList(given === null ? { kind: 'optional', items: [] } : given, where);
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
        return plainStrings(data, dims, where);
    if (Array.isArray(data)) {
        try {
            data = Type === BigInt64Array || Type === BigUint64Array ? Type.from(data, BigInt) : Type.from(data, Number);
        } catch (cause) {
            throw new XcvmError('TYPE_MISMATCH', `${where}: an element cannot be converted to ${dtype}: ${cause.message}`, { cause });
        }
    } else if (!accepts(Type, data, dtype)) {
        throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(data)} is given; expected ${Type.name} (${dtype})`);
    }
    return { dtype, dims, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
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

function plainStrings(strings, dims, where) {
    const pieces = strings.map((text) => {
        if (typeof text !== 'string')
            throw new XcvmError('TYPE_MISMATCH', `${where}: ${describe(text)} is given; expected strings`);
        return encoder.encode(text);
    });
    const lengths = Uint32Array.from(pieces, (piece) => piece.length);
    const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
    let at = 0;
    for (const piece of pieces) {
        bytes.set(piece, at);
        at += piece.length;
    }
    return { dtype: 'str', dims, bytes, lengths };
}

function plainList({ kind, items }, where) {
    if (KINDS.indexOf(kind) < 2)
        throw new XcvmError('INVALID_ARGUMENT', `${where}: the kind is ${describe(kind)}; expected 'sequence', 'optional' or 'map'`);
    return { kind, items: items.map((item, i) => plainValue(item, {}, `${where}[${i}]`)) };
}
