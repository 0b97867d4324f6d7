/* Reads arrays of NumPy's format npz (a zip archive of npy files). Format: numpy.lib.format, version 1; PKWARE's APPNOTE. */

const TYPES = { '|u1': Uint8Array, '|i1': Int8Array, '<i2': Int16Array, '<i4': Int32Array, '<i8': BigInt64Array, '<f4': Float32Array, '<f8': Float64Array };

async function inflate(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

function readNpy(bytes, name) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < 10 || view.getUint32(1) !== 0x4e554d50 || bytes[6] !== 1)
        throw new Error(`${name}: no npy file of version 1`);
    const begin = 10 + view.getUint16(8, true), header = new TextDecoder().decode(bytes.subarray(10, begin));
    const [, descr] = /'descr': '([^']*)'/.exec(header) ?? [], [, dims] = /'shape': \(([^)]*)\)/.exec(header) ?? [];
    const Type = TYPES[descr], shape = (dims ?? '').split(',').filter((dim) => dim.trim() !== '').map(Number);
    if (!Type || /'fortran_order': True/.test(header))
        throw new Error(`${name}: elements of type ${descr} in this order are not supported`);
    return { dims: shape, data: new Type(bytes.slice(begin).buffer, 0, shape.reduce((a, b) => a * b, 1)) };
}

/* Returns { name: { dims, data } } of an archive's bytes. */
export async function readNpz(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), arrays = {};
    let end = bytes.length - 22;
    while (end >= 0 && view.getUint32(end, true) !== 0x06054b50)
        end--;
    if (end < 0)
        throw new Error('no zip archive');
    let at = view.getUint32(end + 16, true);
    for (let left = view.getUint16(end + 10, true); left > 0; left--) {
        const method = view.getUint16(at + 10, true), size = view.getUint32(at + 20, true), local = view.getUint32(at + 42, true);
        const length = view.getUint16(at + 28, true), name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + length));
        const begin = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true), content = bytes.subarray(begin, begin + size);
        if (method !== 0 && method !== 8)
            throw new Error(`${name}: compression ${method} is not supported`);
        arrays[name.replace(/\.npy$/, '')] = readNpy(method === 8 ? await inflate(content) : content.slice(), name);
        at += 46 + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
    return arrays;
}
