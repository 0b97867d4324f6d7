/* The engine in WebAssembly: programs and sessions in the memory of an instance, and the compiler. */
import { createTensor, heapTensor, readValue, writeValue } from './heap.js';
import { acquireRuntime, acquireThreads, releaseRuntime } from './runtime.js';
import { usableThreads, warnOfSession } from './threads.js';
import { dtypeName, kindName } from './values.js';

/** The engine of a compiled module. */
export function wasmEngine(module) {
    return {
        engine: 'wasm',
        load: (bytes) => new WasmProgram(acquireRuntime(module), bytes),
        assemble: (text) => using(module, (runtime) =>
            runtime.with(text, (at, length) => runtime.take(runtime.address('web_assemble', at, length - 1)))),
        compile: (model, options, diagnostics) => using(module, (runtime) => compile(runtime, model, options, diagnostics)),
    };
}

/** The engine of a compiled module whose instances have threads. */
export function threadsEngine(module, threads) {
    return { engine: 'wasm', load: async (bytes) => new WasmProgram(await acquireThreads(module, threads), bytes) };
}

/* Calls a function with an instance that serves for that call. */
function using(module, use) {
    const runtime = acquireRuntime(module);
    try {
        return use(runtime);
    } finally {
        releaseRuntime(runtime);
    }
}

/* `options` are [name, text, number]. Returns the program's bytes, or the index of a refused option. */
function compile(runtime, model, options, diagnostics) {
    let compilation = 0;
    try {
        compilation = runtime.address('web_compilation_create');
        runtime.onDiagnose = diagnostics ? (kind, text) => diagnostics(text) : null;
        for (const [index, [name, text, number]] of options.entries())
            if (!runtime.with(name, (at) => runtime.with(text, (value) => runtime.call('web_compilation_set', compilation, at, value, number))))
                return index;
        return runtime.with(model, (at, count) => runtime.take(runtime.address('web_compile', compilation, at, count)));
    } finally {
        runtime.onDiagnose = null;
        if (compilation && !runtime.broken)
            runtime.call('web_compilation_destroy', compilation);
    }
}

function readInfos(runtime, program, which) {
    const infos = [];
    for (let i = 0, count = runtime.call('web_program_count', program, which); i < count; i++) {
        const at = runtime.call('web_program_value', program, which, i) >>> 0, view = runtime.view;
        const word = (index) => view.getInt32(at + 4 * index, true);
        const rank = word(3), names = word(4) >>> 0, dims = [];
        for (let d = 0; d < rank; d++) {
            const dim = Number(view.getBigInt64(at + 32 + 8 * d, true));
            dims.push(dim >= 0 ? dim : runtime.text(view.getUint32(names + 4 * d, true)) || null);
        }
        infos.push({ name: runtime.text(word(0)), kind: kindName(word(1)), dtype: dtypeName(word(2)), dims: rank >= 0 ? dims : null });
    }
    return infos;
}

/* A program and its bytes in an instance. */
class WasmProgram {
    #at;
    #bytes;
    #count;

    constructor(runtime, bytes) {
        this.runtime = runtime;
        this.#count = bytes.length;
        try {
            this.#bytes = runtime.allocate(bytes.length);
            runtime.bytes.set(bytes, this.#bytes);
            this.#at = runtime.address('web_program_load', this.#bytes, bytes.length);
        } catch (error) {
            runtime.release(this.#bytes);
            releaseRuntime(runtime);
            throw error;
        }
    }

    describe() {
        const { runtime } = this, at = this.#at, number = (which) => runtime.call('web_program_number', at, which);
        return {
            inputs: readInfos(runtime, at, 0), outputs: readInfos(runtime, at, 1), states: readInfos(runtime, at, 2),
            info: {
                format: number(0), producer: runtime.text(runtime.call('web_program_producer', at)), instructions: number(1),
                registers: number(2), constants: number(3), constantBytes: number(4), arenaBytes: number(5),
            },
        };
    }

    get threads() { return this.runtime.threads; }
    get memoryBytes() { return this.runtime.buffer.byteLength; }

    /** The threads of a session that asks for `wanted`; 0: those of the program. */
    sessionThreads(wanted) {
        const { threads } = this;
        if (wanted > threads && usableThreads(wanted) > 1)
            warnOfSession(wanted, threads);
        return Math.min(wanted || threads, threads);
    }

    metadata(key) {
        const { runtime } = this, at = runtime.with(key, (name) => runtime.call('web_program_metadata', this.#at, name) >>> 0);
        return at === 0 ? null : runtime.text(at);
    }

    disassemble(literalLimit, explain) {
        return this.runtime.take(this.runtime.address('web_disassemble', this.#bytes, this.#count, literalLimit, explain ? 1 : 0));
    }

    createSession(options) { return new WasmSession(this.runtime, this.#at, options); }

    destroy() {
        if (!this.runtime.broken) {
            this.runtime.call('web_program_destroy', this.#at);
            this.runtime.release(this.#bytes);
        }
        releaseRuntime(this.runtime);
    }
}

class WasmSession {
    #runtime;
    #at;
    #call;
    #print;
    #bound = [];

    constructor(runtime, program, { memoryLimit, seed, flags, threads, statesOf, functions, call, print }) {
        this.#runtime = runtime;
        this.#call = call;
        this.#print = print;
        this.#at = runtime.with(functions.join('\0'), (names) => runtime.address('web_session_create', program, memoryLimit, seed, flags,
            statesOf?.#at ?? 0, names, functions.length, threads));
    }

    #bind(index, value) {
        const runtime = this.#runtime;
        try {
            runtime.check('web_session_set_input', this.#at, index, value);
        } catch (error) {
            runtime.broken || runtime.call('web_value_release', value);
            throw error;
        }
        if (this.#bound[index])
            runtime.call('web_value_release', this.#bound[index]);
        this.#bound[index] = value;
    }

    setInput(index, plain) { this.#bind(index, writeValue(this.#runtime, plain)); }

    createInput(index, dtype, dims, isValid) {
        const value = createTensor(this.#runtime, dtype, dims), tensor = heapTensor(this.#runtime, value, isValid);
        this.#bind(index, value);
        tensor.data.fill(tensor.data instanceof BigInt64Array || tensor.data instanceof BigUint64Array ? 0n : 0);
        return tensor;
    }

    run({ fuel, timeout, cancel, signal, observe, observeBefore }) {
        const runtime = this.#runtime, stops = () => (cancel && Atomics.load(cancel, 0) !== 0) || signal?.aborted;
        runtime.onPrint = this.#print;
        runtime.onCall = (...parameters) => this.#callHost(...parameters);
        /* The VM reads the clock to check its deadline; that is where a cancellation can be noticed. */
        if (cancel || signal) {
            runtime.onClock = () => { if (stops()) runtime.exports.web_session_cancel(this.#at); };
            timeout ||= 1e12;
        }
        if (observe) {
            runtime.onObserve = (phase, event) => this.#observe(phase, event, observe);
            runtime.call('web_session_observe', this.#at, 1, observeBefore ? 1 : 0, 1);
        }
        runtime.hostError = undefined;
        try {
            if (stops())
                runtime.call('web_session_cancel', this.#at);
            runtime.check('web_session_run', this.#at, fuel, timeout);
        } finally {
            runtime.onClock = runtime.onObserve = runtime.onCall = runtime.onPrint = null;
            if (observe && !runtime.broken)
                runtime.call('web_session_observe', this.#at, 0, 0, 0);
        }
    }

    /* An instance runs on the thread of its caller. */
    async runAsync(options) { this.run(options); }

    #callHost(number, inputCount, inputs, outputCount, outputs, message, messageSize) {
        const runtime = this.#runtime;
        try {
            const given = [];
            for (let i = 0; i < inputCount; i++)
                given.push(readValue(runtime, runtime.view.getUint32((inputs >>> 0) + 4 * i, true)));
            this.#call(number, given, outputCount).forEach((plain, i) => {
                const value = writeValue(runtime, plain);
                runtime.view.setUint32((outputs >>> 0) + 4 * i, value, true);
            });
            return 1;
        } catch (error) {
            runtime.hostError ??= error;
            const text = new TextEncoder().encode(String(error?.message ?? error)).subarray(0, messageSize - 1);
            runtime.bytes.set(text, message >>> 0);
            return 0;
        }
    }

    #observe(phase, event, observe) {
        const runtime = this.#runtime, { exports } = runtime;
        const number = (which) => exports.web_event_number(event, which);
        const text = (which) => runtime.text(exports.web_event_text(event, which));
        const registers = (output) => Array.from({ length: number(output ? 8 : 7) }, (_, i) => exports.web_event_register(event, output, i));
        return observe(phase, [0, 1, 2, 3, 4, 5, 6, 9].map(number), text, registers(0), registers(1),
            (output, i) => readValue(runtime, exports.web_event_value(event, output, i) >>> 0));
    }

    output(index, copy, isValid) {
        const runtime = this.#runtime, value = runtime.call('web_session_output', this.#at, index) >>> 0;
        const inPlace = !copy && kindName(runtime.call('web_value_kind', value)) === 'tensor' && dtypeName(runtime.call('web_value_dtype', value)) !== 'str';
        return inPlace ? heapTensor(runtime, value, isValid) : readValue(runtime, value);
    }

    warmUp() { this.#runtime.check('web_session_warm_up', this.#at); }
    getState(index) { return readValue(this.#runtime, this.#runtime.call('web_session_state', this.#at, index) >>> 0); }

    setState(index, plain) {
        const runtime = this.#runtime, at = writeValue(runtime, plain);
        try {
            runtime.check('web_session_set_state', this.#at, index, at);
        } finally {
            runtime.broken || runtime.call('web_value_release', at);
        }
    }

    resetStates() { this.#runtime.check('web_session_reset_states', this.#at); }
    saveStates() { return this.#runtime.take(this.#runtime.address('web_session_save_states', this.#at)); }
    loadStates(bytes) { this.#runtime.with(bytes, (at, count) => this.#runtime.check('web_session_load_states', this.#at, at, count)); }

    get memory() {
        const number = (which) => this.#runtime.call('web_session_memory', this.#at, which);
        return { liveBytes: number(0), peakBytes: number(1), reservedBytes: number(2) };
    }

    destroy() {
        if (this.#runtime.broken)
            return;
        this.#runtime.call('web_session_destroy', this.#at);
        this.#bound.forEach((value) => value && this.#runtime.call('web_value_release', value));
    }
}
