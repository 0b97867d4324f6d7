/* Instances of the WebAssembly modules: memory, errors, and the host's part of WASI. */
import { XcvmError } from './source.js';
import { createSharedMemory, startThreads } from './threads.js';
export { XcvmError, compileModule, describe, readBytes } from './source.js';

/** Names of statuses, in the order of xcvm_status. */
const STATUSES = ['OK', 'INVALID_ARGUMENT', 'INVALID_PROGRAM', 'INVALID_MODEL', 'UNSUPPORTED', 'SHAPE_MISMATCH',
    'TYPE_MISMATCH', 'OUT_OF_RANGE', 'OUT_OF_MEMORY', 'OUT_OF_TIME', 'CANCELLED', 'IO', 'INTERNAL'];

/** The error for a failure of the VM: the number of its status, and its place. */
export function vmError(status, message, pc, instruction, node) {
    const where = instruction ? `${pc} ${instruction}${node ? ` (${node})` : ''}: ` : '';
    return new XcvmError(STATUSES[status] ?? 'INTERNAL', where + message, { pc, instruction, node });
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/* Pages of a new shared memory, as web/CMakeLists.txt has them. */
const SHARED_PAGES = 64;
const EBADF = 8, ENOENT = 44, ENOSYS = 52;

/** One instance of a module, with a memory of its own. */
export class Runtime {
    #instance;
    #buffer = null;
    #bytes = null;
    #view = null;
    /** The reason why the instance cannot be used any more, or null. */
    broken = null;
    /** Programs that live in the memory. */
    programs = 0;
    /** Threads of the instance: the workers and the caller. */
    workers = [];
    get threads() { return this.workers.length + 1; }
    /** Callbacks of the run in progress. */
    onObserve = null;
    onCall = null;
    onClock = null;
    onPrint = null;
    onDiagnose = null;

    constructor(module) {
        const wasi = {
            clock_time_get: (clock, precision, at) => {
                this.onClock?.();
                const now = clock === 0 ? Date.now() * 1e6 : performance.now() * 1e6;
                this.view.setBigUint64(at, BigInt(Math.round(now)), true);
                return 0;
            },
            random_get: (at, count) => {
                for (let done = 0; done < count; done += 65536) {
                    const piece = new Uint8Array(Math.min(65536, count - done));
                    /* Keys of hash tables. Node 18 has no global `crypto`. */
                    if (globalThis.crypto)
                        crypto.getRandomValues(piece);
                    else
                        piece.forEach((_, i) => { piece[i] = Math.random() * 256; });
                    this.bytes.set(piece, (at >>> 0) + done);
                }
                return 0;
            },
            environ_sizes_get: (count, size) => {
                this.view.setUint32(count, 0, true);
                this.view.setUint32(size, 0, true);
                return 0;
            },
            environ_get: () => 0,
            fd_prestat_get: () => EBADF,
            fd_fdstat_get: () => EBADF,
            path_open: () => ENOENT,
            proc_exit: (code) => { throw new WebAssembly.RuntimeError(`exit with ${code}`); },
        };
        const host = {
            observe: (phase, event) => this.#host(() => this.onObserve?.(phase, event >>> 0)) ?? 0,
            print: (text, length) => void this.#host(() => this.onPrint?.(decoder.decode(this.bytes.slice(text >>> 0, (text >>> 0) + length)))),
            call: (...parameters) => this.onCall ? this.onCall(...parameters) : 0,
            diagnose: (kind, text) => void this.#host(() => this.onDiagnose?.(kind, this.text(text))),
        };
        const imports = { xcvm: host, wasi_snapshot_preview1: wasi };
        try {
            for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
                if (kind === 'memory')
                    imports[from] = { [name]: this.memory = createSharedMemory(SHARED_PAGES) };
                else if (from === 'wasi_snapshot_preview1')
                    wasi[name] ??= () => ENOSYS;
            this.#instance = new WebAssembly.Instance(module, imports);
        } catch (cause) {
            if (cause instanceof RangeError)
                throw new XcvmError('OUT_OF_MEMORY', `no memory for an instance of the VM: ${cause.message}`, { cause });
            throw cause;
        }
        this.module = module;
        this.exports = this.#instance.exports;
        this.exports._initialize();
    }

    /** Calls back, and keeps an exception for #call to throw. */
    #host(call) {
        if (this.hostError !== undefined)
            return 1;
        try {
            return call();
        } catch (error) {
            this.hostError = error;
            return STATUSES.indexOf('CANCELLED');
        }
    }
    hostError = undefined;

    #refresh() {
        this.#buffer = this.exports.memory.buffer;
        this.#bytes = new Uint8Array(this.#buffer);
        this.#view = new DataView(this.#buffer);
    }

    get bytes() {
        if (this.#buffer !== this.exports.memory.buffer)
            this.#refresh();
        return this.#bytes;
    }

    get view() {
        if (this.#buffer !== this.exports.memory.buffer)
            this.#refresh();
        return this.#view;
    }

    get buffer() { return this.exports.memory.buffer; }

    /** Calls an exported function. A trap makes the instance unusable; other instances go on. */
    call(name, ...parameters) {
        if (this.broken)
            throw new XcvmError('INTERNAL', `the VM's instance has failed before: ${this.broken}. Load the program again.`);
        try {
            return this.exports[name](...parameters);
        } catch (cause) {
            if (cause instanceof XcvmError)
                throw cause;
            this.broken = cause.message;
            throw new XcvmError('INTERNAL', `the VM's instance has failed: ${cause.message}. Load the program again.`, { cause });
        }
    }

    /** Calls a function that returns an address, and throws if it is NULL. */
    address(name, ...parameters) {
        const at = this.call(name, ...parameters) >>> 0;
        if (at === 0)
            throw this.error();
        return at;
    }

    /** Calls a function that returns a status, and throws unless it is OK. */
    check(name, ...parameters) {
        const status = this.call(name, ...parameters);
        if (this.hostError !== undefined) {
            const error = this.hostError;
            this.hostError = undefined;
            throw error;
        }
        if (status !== 0)
            throw this.error();
    }

    /** The latest failure of the instance. */
    error() {
        const part = (index) => this.text(this.call('web_error_text', index));
        return vmError(this.call('web_error_status'), part(0), this.call('web_error_pc'), part(1), part(2));
    }

    /** Reads a NUL-terminated string; "" for NULL. */
    text(at) {
        at >>>= 0;
        if (at === 0)
            return '';
        const bytes = this.bytes;
        return decoder.decode(bytes.slice(at, bytes.indexOf(0, at)));
    }

    /** Allocates 64-byte aligned memory; throws OUT_OF_MEMORY. */
    allocate(count) {
        const at = count <= 0xffffffff ? this.call('web_allocate', count) >>> 0 : 0;
        if (at === 0)
            throw new XcvmError('OUT_OF_MEMORY', `no memory for ${count} bytes`);
        return at;
    }

    release(at) {
        if (at && !this.broken)
            this.call('web_release', at);
    }

    /** Calls `use` with the address of a copy of bytes or of a NUL-terminated text. */
    with(data, use) {
        const bytes = typeof data === 'string' ? encoder.encode(data + '\0') : data;
        const at = this.allocate(bytes.length);
        try {
            this.bytes.set(bytes, at);
            return use(at, bytes.length);
        } finally {
            this.release(at);
        }
    }

    /** Takes the bytes out of a web_bytes and destroys it. */
    take(bytes) {
        const at = this.call('web_bytes_at', bytes) >>> 0;
        const copy = this.bytes.slice(at, at + (this.call('web_bytes_count', bytes) >>> 0));
        this.call('web_bytes_destroy', bytes);
        return copy;
    }
}

/* Instances whose programs are gone serve the next program, unless their memory has grown large. */
const MOST_IDLE = 2, MOST_IDLE_BYTES = 32 << 20;
const idle = [];

/** Returns an idle instance of the module, or a new one. */
export function acquireRuntime(module) {
    const index = idle.findIndex((runtime) => runtime.module === module && runtime.threads === 1);
    return index >= 0 ? idle.splice(index, 1)[0] : new Runtime(module);
}

/** Returns an instance of the module with threads. */
export async function acquireThreads(module, threads) {
    const index = idle.findIndex((runtime) => runtime.module === module && runtime.threads === threads);
    const runtime = index >= 0 ? idle.splice(index, 1)[0] : new Runtime(module);
    if (index < 0)
        runtime.workers = await startThreads(runtime, threads - 1);
    return runtime;
}

/** Keeps an instance for another program, or drops it, which gives its memory back. */
export function releaseRuntime(runtime) {
    if (!runtime.broken && runtime.buffer.byteLength <= MOST_IDLE_BYTES && idle.length < MOST_IDLE)
        idle.push(runtime);
    else {
        runtime.broken ??= 'it is disposed';
        runtime.workers.forEach((worker) => worker.terminate());
    }
}
