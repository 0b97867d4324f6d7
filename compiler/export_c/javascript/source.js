/* Errors, and sources of bytes and modules. The npm package contains this file, and so does the ES module of an exported
 * network. */

/** A failure of the VM, the compiler or this package. */
class XcvmError extends Error {
    constructor(status, message, details = {}) {
        super(message);
        this.name = 'XcvmError';
        /** Name of the status, such as "SHAPE_MISMATCH". */
        this.status = status;
        /** Index, instruction name and node of the model's graph of a failed instruction. */
        this.pc = details.pc ?? -1;
        this.instruction = details.instruction ?? '';
        this.node = details.node ?? '';
        if (details.cause !== undefined)
            this.cause = details.cause;
    }
}

const isNode = typeof process === 'object' && !!process.versions?.node && process.type !== 'renderer';

/** Reads a URL, path (Node), Response, Blob, array buffer or view as bytes. */
async function readBytes(source, what) {
    if (source instanceof Uint8Array)
        return source;
    if (source instanceof ArrayBuffer || (typeof SharedArrayBuffer === 'function' && source instanceof SharedArrayBuffer))
        return new Uint8Array(source);
    if (ArrayBuffer.isView(source))
        return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    if (typeof Blob === 'function' && source instanceof Blob)
        return new Uint8Array(await source.arrayBuffer());
    if (typeof Response === 'function' && source instanceof Response)
        return readResponse(source, source.url || what);
    if (typeof source === 'string' || source instanceof URL) {
        const url = String(source);
        if (isNode && !/^(https?|data|blob):/.test(url)) {
            /* Not a literal, which bundlers would look for. */
            const files = 'node:fs/promises', { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ files);
            try {
                return await readFile(url.startsWith('file:') ? new URL(url) : url);
            } catch (cause) {
                throw new XcvmError('IO', `${url}: ${what} cannot be read: ${cause.message}`, { cause });
            }
        }
        let response;
        try {
            response = await fetch(url);
        } catch (cause) {
            throw new XcvmError('IO', `${url}: ${what} cannot be fetched: ${cause.message}`, { cause });
        }
        return readResponse(response, url);
    }
    throw new XcvmError('INVALID_ARGUMENT',
        `${what} is ${describe(source)}; expected a URL, a Response, a Blob, an ArrayBuffer or a typed array`);
}

async function readResponse(response, url) {
    if (!response.ok)
        throw new XcvmError('IO', `${url}: the server answered ${response.status} ${response.statusText}`);
    return new Uint8Array(await response.arrayBuffer());
}

/** Names the type of a JavaScript value for messages. */
function describe(value) {
    if (value === null || value === undefined)
        return String(value);
    if (typeof value === 'object')
        return value.constructor?.name ?? 'an object';
    return `a ${typeof value}`;
}

/** Compiles a module from a URL, bytes, a Response or a module. */
async function compileModule(source) {
    if (source instanceof WebAssembly.Module)
        return source;
    try {
        if (!isNode && (typeof source === 'string' || source instanceof URL) && WebAssembly.compileStreaming) {
            const response = await fetch(source);
            /* Streaming needs the MIME type application/wasm. */
            if (response.ok && (response.headers.get('Content-Type') ?? '').startsWith('application/wasm'))
                return await WebAssembly.compileStreaming(response);
            return await WebAssembly.compile(await readResponse(response, String(source)));
        }
        return await WebAssembly.compile(await readBytes(source, 'the WebAssembly module'));
    } catch (cause) {
        if (cause instanceof XcvmError)
            throw cause;
        if (cause instanceof WebAssembly.CompileError && /policy|unsafe-eval/i.test(cause.message))
            throw new XcvmError('UNSUPPORTED',
                `the page's content security policy forbids WebAssembly; add 'wasm-unsafe-eval' to script-src (${cause.message})`, { cause });
        if (cause instanceof WebAssembly.CompileError)
            throw new XcvmError('UNSUPPORTED',
                `this engine cannot compile the WebAssembly module; it needs SIMD (Chrome 91, Firefox 89, Safari 16.4, Node 16.4): ${cause.message}`, { cause });
        throw new XcvmError('IO', `the WebAssembly module cannot be loaded: ${cause.message}`, { cause });
    }
}

export { XcvmError, compileModule, describe, isNode, readBytes };
