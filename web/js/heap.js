/* Values in the memory of an instance of WebAssembly: copies to it and from it. */
import { arrayType, dtypeName, dtypeNumber, elementCount, HeapTensor, kindName, kindNumber, Tensor } from './values.js';

const decoder = new TextDecoder();

function tensorInfo(runtime, value) {
    const rank = runtime.call('web_value_rank', value), at = runtime.call('web_value_dims', value) >>> 0;
    const dims = [];
    for (let i = 0; i < rank; i++)
        dims.push(Number(runtime.view.getBigInt64(at + 8 * i, true)));
    return { dtype: dtypeName(runtime.call('web_value_dtype', value)), dims, at: runtime.call('web_value_data', value) >>> 0 };
}

/** A tensor over the elements of a value, without a copy. */
export function heapTensor(runtime, value, isValid) {
    const { dtype, dims, at } = tensorInfo(runtime, value);
    return new HeapTensor(dtype, dims, () => runtime.buffer, at, isValid);
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
    const { Type, each } = arrayType(dtype);
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
        return runtime.address('web_tensor_create', dtypeNumber(dtype), dims.length, at);
    } finally {
        runtime.release(at);
    }
}

/** Copies a plain value into the memory of an instance. Returns the address of a counted value. */
export function writeValue(runtime, plain) {
    if (plain.items)
        return writeList(runtime, plain);
    if (plain.lengths)
        return writeStrings(runtime, plain);
    const tensor = createTensor(runtime, plain.dtype, plain.dims);
    runtime.bytes.set(plain.bytes, runtime.call('web_value_data', tensor) >>> 0);
    return tensor;
}

function writeStrings(runtime, { dims, bytes, lengths }) {
    const at = runtime.allocate(64 + 4 * lengths.length + bytes.length), text = at + 64 + 4 * lengths.length;
    try {
        dims.forEach((dim, i) => runtime.view.setBigInt64(at + 8 * i, BigInt(dim), true));
        lengths.forEach((length, i) => runtime.view.setUint32(at + 64 + 4 * i, length, true));
        runtime.bytes.set(bytes, text);
        return runtime.address('web_strings_create', dims.length, at, text, at + 64, lengths.length);
    } finally {
        runtime.release(at);
    }
}

function writeList(runtime, { kind, items }) {
    const values = [];
    try {
        items.forEach((item) => values.push(writeValue(runtime, item)));
        return runtime.with(new Uint8Array(Uint32Array.from(values).buffer),
            (at) => runtime.address('web_list_create', kindNumber(kind), values.length, at));
    } finally {
        values.forEach((value) => runtime.broken || runtime.call('web_value_release', value));
    }
}
