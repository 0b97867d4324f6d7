/* Programs and sessions of the VM. */
import { acquireRuntime, acquireThreads, compileModule, describe, readBytes, releaseRuntime, XcvmError } from './runtime.js';
import { initThreads, usableThreads, warnOfSession } from './threads.js';
import { createTensor, dtypeName, HeapTensor, kindName, readValue, Tensor, writeValue } from './values.js';

export { HeapTensor, initThreads, Tensor, XcvmError };

let vmModule = null;

/** Loads the VM's module, once. `source` is a URL, bytes, a Response or a WebAssembly.Module; by default xcvm.wasm beside
 * this file. Program.load calls it. */
export function init(source) {
    if (source !== undefined || vmModule === null) {
        const loading = compileModule(source ?? new URL('./xcvm.wasm', import.meta.url));
        /* A failure may pass, as of a network. */
        loading.catch(() => { if (vmModule === loading) vmModule = null; });
        vmModule = loading;
    }
    return vmModule;
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
        infos.push(Object.freeze({
            name: runtime.text(word(0)), kind: kindName(word(1)), dtype: dtypeName(word(2)),
            dims: rank >= 0 ? Object.freeze(dims) : null,
        }));
    }
    return Object.freeze(infos);
}

/** A loaded program. It lives in an instance of the VM with a memory of its own. */
export class Program {
    #runtime;
    #at;
    #bytes;
    #count;
    #sessions = new Set();

    /** Loads a program from a URL, path (Node), Response, Blob, ArrayBuffer or typed array. */
    static async load(source, options = {}) {
        const threads = usableThreads(options.threads);
        const [module, bytes] = await Promise.all([threads > 1 ? initThreads() : options.module ?? init(), readBytes(source, 'the program')]);
        return threads > 1 ? Program.#place(await acquireThreads(module, threads), bytes) : Program.loadSync(bytes, { module });
    }

    /** Loads a program from bytes into an instance of a compiled module (see `init`). */
    static loadSync(bytes, { module }) {
        if (!(bytes instanceof Uint8Array))
            throw new XcvmError('INVALID_ARGUMENT', `the program is ${describe(bytes)}; expected a Uint8Array`);
        return Program.#place(acquireRuntime(module), bytes);
    }

    static #place(runtime, bytes) {
        let memory = 0;
        try {
            memory = runtime.allocate(bytes.length);
            runtime.bytes.set(bytes, memory);
            return new Program(runtime, runtime.address('web_program_load', memory, bytes.length), memory, bytes.length);
        } catch (error) {
            runtime.release(memory);
            releaseRuntime(runtime);
            throw error;
        }
    }

    /** Compiles an ONNX model and loads the program. The compiler's module is loaded for the first model. */
    static async compile(model, options = {}) {
        const { compile, initCompiler } = await import('./compiler.js');
        const { threads = 1, ...others } = options, program = await compile(model, others);
        return usableThreads(threads) > 1 ? Program.load(program, { threads }) : Program.loadSync(program, { module: await initCompiler() });
    }

    /** Assembles a text into a program and loads it. */
    static async assemble(text, options = {}) {
        const module = await (options.module ?? init());
        const runtime = acquireRuntime(module);
        let bytes;
        try {
            bytes = runtime.with(text, (at, length) => runtime.take(runtime.address('web_assemble', at, length - 1)));
        } finally {
            releaseRuntime(runtime);
        }
        return Program.load(bytes, { ...options, module });
    }

    /** Not for callers; see `load`. */
    constructor(runtime, at, bytes, count) {
        this.#runtime = runtime;
        this.#at = at;
        this.#bytes = bytes;
        this.#count = count;
        this.inputs = readInfos(runtime, at, 0);
        this.outputs = readInfos(runtime, at, 1);
        this.states = readInfos(runtime, at, 2);
        const number = (which) => runtime.call('web_program_number', at, which);
        this.info = Object.freeze({
            format: number(0), producer: runtime.text(runtime.call('web_program_producer', at)), instructions: number(1),
            registers: number(2), constants: number(3), constantBytes: number(4), arenaBytes: number(5),
        });
    }

    #alive() {
        if (this.#at === 0)
            throw new XcvmError('INVALID_ARGUMENT', 'the program is disposed');
        return this.#runtime;
    }

    /** Threads that sessions may use. */
    get threads() { return this.#alive().threads; }

    /** Bytes of the instance's memory, which `dispose` gives back. */
    get memoryBytes() { return this.#alive().buffer.byteLength; }

    /** Returns the value of a metadata key, or null. */
    metadata(key) {
        const runtime = this.#alive();
        const at = runtime.with(String(key), (name) => runtime.call('web_program_metadata', this.#at, name) >>> 0);
        return at === 0 ? null : runtime.text(at);
    }

    /** Returns the program's text assembly. */
    disassemble({ literalLimit = 0, explain = false } = {}) {
        const runtime = this.#alive();
        const text = runtime.address('web_disassemble', this.#bytes, this.#count, literalLimit, explain ? 1 : 0);
        return new TextDecoder().decode(runtime.take(text));
    }

    /** Creates a session. */
    createSession(options = {}) {
        const runtime = this.#alive();
        const threads = options.threads || runtime.threads;
        if (threads > runtime.threads && usableThreads(threads) > 1)
            warnOfSession(threads, runtime.threads);
        const other = options.statesOf ? Session.address(options.statesOf) : null;
        if (other && other.runtime !== runtime)
            throw new XcvmError('INVALID_ARGUMENT', 'statesOf is a session of another program instance; states are shared within one program');
        const functions = Object.entries(options.functions ?? {});
        const at = runtime.with(functions.map(([name]) => name).join('\0'), (names) => runtime.address('web_session_create', this.#at,
            options.memoryLimit ?? 0, options.seed ?? 0, (options.flushSubnormals ? 1 : 0) | (options.strictTypes ? 2 : 0),
            other?.at ?? 0, names, functions.length, Math.min(threads, runtime.threads)));
        const session = new Session(this, runtime, at, functions.map(([, call]) => call), options.print ?? null,
            () => this.#sessions.delete(session));
        this.#sessions.add(session);
        return session;
    }

    /** Destroys the program and its sessions, and gives the instance's memory back. */
    dispose() {
        if (this.#at === 0)
            return;
        if ([...this.#sessions].some((session) => session.running))
            throw new XcvmError('INVALID_ARGUMENT', 'a session of the program is running; dispose it after the run');
        for (const session of [...this.#sessions])
            session.dispose();
        if (!this.#runtime.broken) {
            this.#runtime.call('web_program_destroy', this.#at);
            this.#runtime.release(this.#bytes);
        }
        releaseRuntime(this.#runtime);
        this.#at = 0;
        this.#runtime = null;
    }
}

/** Registers, states and memory for runs of a program. */
export class Session {
    #runtime;
    #at;
    #functions;
    #print;
    #forget;
    #run = 0; /* number of the latest run, for views of its results */
    #bound;

    /** Not for callers; see Program.createSession. */
    constructor(program, runtime, at, functions, print, forget) {
        this.program = program;
        this.running = false;
        this.#runtime = runtime;
        this.#at = at;
        this.#functions = functions;
        this.#print = print;
        this.#forget = forget;
        this.#bound = new Array(program.inputs.length).fill(0);
    }

    /** Not for callers. */
    static address(session) {
        return session instanceof Session && session.#at !== 0 ? { runtime: session.#runtime, at: session.#at } : null;
    }

    #alive() {
        if (this.#at === 0)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is disposed');
        if (this.running)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is running; a session does one thing at a time');
        return this.#runtime;
    }

    #index(infos, name, what) {
        const index = infos.findIndex((info) => info.name === name);
        if (index < 0)
            throw new XcvmError('INVALID_ARGUMENT', `the program has no ${what} "${name}"; expected one of ${infos.map((info) => `"${info.name}"`).join(', ') || 'none'}`);
        return index;
    }

    #bind(index, value) {
        try {
            this.#runtime.check('web_session_set_input', this.#at, index, value);
        } catch (error) {
            this.#runtime.broken || this.#runtime.call('web_value_release', value);
            throw error;
        }
        if (this.#bound[index])
            this.#runtime.call('web_value_release', this.#bound[index]);
        this.#bound[index] = value;
    }

    /** Binds a value to an input. It stays bound for later runs. */
    setInput(name, value) {
        const runtime = this.#alive(), inputs = this.program.inputs, index = this.#index(inputs, name, 'input');
        this.#bind(index, writeValue(runtime, value, inputs[index], `input "${name}"`));
    }

    /** Binds a tensor in the VM's memory to an input, and returns it. Its `data` is filled in place before each run, so
     * that no run copies the input. `dims` is needed if the declared shape is dynamic. */
    input(name, dims) {
        const runtime = this.#alive(), inputs = this.program.inputs, index = this.#index(inputs, name, 'input'), info = inputs[index];
        dims ??= info.dims?.every((dim) => typeof dim === 'number') ? info.dims : null;
        if (info.kind !== 'tensor' || info.dtype === null || info.dtype === 'str' || dims === null)
            throw new XcvmError('INVALID_ARGUMENT', `input "${name}": ${dims === null ? 'the declared shape is dynamic; give the dimensions' : 'only tensors of numbers are written in place'}`);
        const value = createTensor(runtime, info.dtype, dims);
        const tensor = new HeapTensor(runtime, value, () => this.#at !== 0 && this.#bound[index] === value);
        this.#bind(index, value);
        tensor.data.fill(tensor.data instanceof BigInt64Array || tensor.data instanceof BigUint64Array ? 0n : 0);
        return tensor;
    }

    /** Runs the program and returns its outputs by name. Inputs that are not given keep their values. */
    run(inputs = {}, options = {}) {
        const runtime = this.#alive();
        if (inputs === null || typeof inputs !== 'object')
            throw new XcvmError('INVALID_ARGUMENT', `inputs are ${describe(inputs)}; expected an object { name: value }`);
        options.signal?.throwIfAborted();
        for (const name of Object.keys(inputs))
            this.setInput(name, inputs[name]);
        this.#execute(runtime, options);
        return this.#outputs(runtime, options.copy ?? true);
    }

    #execute(runtime, { fuel = 0, timeout = 0, cancel, signal, observe, observeBefore = false }) {
        const stops = () => (cancel && Atomics.load(cancel, 0) !== 0) || signal?.aborted;
        this.#run++;
        this.running = true;
        runtime.onPrint = this.#print ?? ((text) => console.log(text.replace(/\n$/, '')));
        runtime.onCall = (...parameters) => this.#call(runtime, ...parameters);
        /* The VM reads the clock to check its deadline; that is where a cancellation can be noticed. */
        if (cancel || signal) {
            runtime.onClock = () => { if (stops()) runtime.exports.web_session_cancel(this.#at); };
            timeout ||= 1e12;
        }
        if (observe) {
            runtime.onObserve = (phase, event) => this.#observe(runtime, phase, event, observe);
            runtime.call('web_session_observe', this.#at, 1, observeBefore ? 1 : 0, 1);
        }
        runtime.hostError = undefined;
        try {
            if (stops())
                runtime.call('web_session_cancel', this.#at);
            runtime.check('web_session_run', this.#at, fuel, timeout);
        } finally {
            this.running = false;
            runtime.onClock = runtime.onObserve = runtime.onCall = runtime.onPrint = null;
            if (observe && !runtime.broken)
                runtime.call('web_session_observe', this.#at, 0, 0, 0);
        }
    }

    /* A host function of the program. */
    #call(runtime, number, inputCount, inputs, outputCount, outputs, message, messageSize) {
        try {
            const given = [];
            for (let i = 0; i < inputCount; i++)
                given.push(readValue(runtime, runtime.view.getUint32((inputs >>> 0) + 4 * i, true)));
            let results = this.#functions[number](...given);
            results = Array.isArray(results) && outputCount !== 1 ? results : [results];
            if (results.length !== outputCount)
                throw new XcvmError('INVALID_ARGUMENT', `a host function returned ${results.length} values; expected ${outputCount}`);
            results.forEach((result, i) => {
                const value = writeValue(runtime, result, { kind: 'tensor', dims: null }, `result ${i} of a host function`);
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

    #observe(runtime, phase, event, observe) {
        const number = (which) => runtime.exports.web_event_number(event, which);
        const text = (which) => runtime.text(runtime.exports.web_event_text(event, which));
        const values = (output) => Array.from({ length: number(output ? 8 : 7) }, (_, i) => ({
            register: runtime.exports.web_event_register(event, output, i),
            name: output ? text(3 + i) : '',
            get value() { return readValue(runtime, runtime.exports.web_event_value(event, output, i) >>> 0); },
        }));
        const stop = observe({
            phase: phase === 0 ? 'before' : 'after', pc: number(0), instruction: text(0), node: text(1), attributes: text(2),
            start: number(1), milliseconds: phase === 0 ? 0 : number(2) - number(1), flops: number(3), bytesRead: number(4),
            bytesWritten: number(5), liveBytes: number(6), threads: number(9),
            get inputs() { return values(0); },
            get outputs() { return values(1); },
        });
        return stop === false ? 10 : 0;
    }

    #outputs(runtime, copy) {
        const results = {}, run = this.#run;
        this.program.outputs.forEach((info, i) => {
            const value = runtime.call('web_session_output', this.#at, i) >>> 0;
            const inPlace = !copy && kindName(runtime.call('web_value_kind', value)) === 'tensor' && dtypeName(runtime.call('web_value_dtype', value)) !== 'str';
            results[info.name] = inPlace ? new HeapTensor(runtime, value, () => this.#at !== 0 && this.#run === run) : readValue(runtime, value);
        });
        return results;
    }

    /** Runs the program and returns its outputs, and the time, flops and bytes of every instruction. */
    profile(inputs = {}, options = {}) {
        const instructions = [];
        const outputs = this.run(inputs, {
            ...options,
            observe: ({ pc, instruction, node, start, milliseconds, flops, bytesRead, bytesWritten, liveBytes, threads }) =>
                void instructions.push({ pc, instruction, node, start, milliseconds, flops, bytesRead, bytesWritten, liveBytes, threads }),
        });
        return { outputs, instructions };
    }

    /** Makes the first run about as fast as later ones. */
    warmUp() {
        this.#alive().check('web_session_warm_up', this.#at);
        this.#run++;
    }

    /** Returns a copy of a state. */
    getState(name) {
        const runtime = this.#alive(), index = this.#index(this.program.states, name, 'state');
        return readValue(runtime, runtime.call('web_session_state', this.#at, index) >>> 0);
    }

    setState(name, value) {
        const runtime = this.#alive(), states = this.program.states, index = this.#index(states, name, 'state');
        const at = writeValue(runtime, value, states[index], `state "${name}"`);
        try {
            runtime.check('web_session_set_state', this.#at, index, at);
        } finally {
            runtime.broken || runtime.call('web_value_release', at);
        }
    }

    /** Restores the initial value of every state. */
    resetStates() { this.#alive().check('web_session_reset_states', this.#at); }

    /** Returns all states as a safetensors file. */
    saveStates() {
        const runtime = this.#alive();
        return runtime.take(runtime.address('web_session_save_states', this.#at));
    }

    loadStates(bytes) {
        const runtime = this.#alive();
        runtime.with(bytes, (at, count) => runtime.check('web_session_load_states', this.#at, at, count));
    }

    /** Bytes that the session holds. */
    get memory() {
        const runtime = this.#alive(), number = (which) => runtime.call('web_session_memory', this.#at, which);
        return { liveBytes: number(0), peakBytes: number(1), reservedBytes: number(2) };
    }

    dispose() {
        if (this.#at === 0)
            return;
        if (this.running)
            throw new XcvmError('INVALID_ARGUMENT', 'the session is running; dispose it after the run');
        if (!this.#runtime.broken) {
            this.#runtime.call('web_session_destroy', this.#at);
            this.#bound.forEach((value) => value && this.#runtime.call('web_value_release', value));
        }
        this.#at = 0;
        this.#forget();
    }
}

if (typeof Symbol.dispose === 'symbol')
    for (const Class of [Program, Session])
        Class.prototype[Symbol.dispose] = Class.prototype.dispose;
