/* The native engine for Node: programs and sessions of the addon (web/node). */
import { createRequire } from 'node:module';
import { availableParallelism, cpus } from 'node:os';
import { vmError } from './runtime.js';
import { XcvmError } from './source.js';
import { arrayType, dtypeName, dtypeNumber, HeapTensor, kindName, kindNumber, Tensor } from './values.js';

const require = createRequire(import.meta.url), decoder = new TextDecoder();
const PLACES = [`@xcvm/${process.platform}-${process.arch}`, `../native/${process.platform}-${process.arch}/xcvm.node`];
let engine;

/** Returns the native engine, or null if it is not installed. If it is `required`, that is an error. */
export function loadNative(required) {
    if (engine === undefined || (engine === null && required))
        engine = open(required);
    return engine;
}

function open(required) {
    const failures = [];
    for (const place of PLACES)
        try {
            const addon = require(place);
            addon.initialize(vmError);
            return nativeEngine(addon);
        } catch (cause) {
            failures.push(`${place}: ${cause.message.split('\n')[0]}`);
        }
    if (required)
        throw new XcvmError('UNSUPPORTED', `the native engine cannot be loaded (${failures.join('; ')}); install ${PLACES[0]}, or use the engine 'wasm'`);
    return null;
}

function nativeEngine(addon) {
    return Object.freeze({
        engine: 'native',
        version: addon.version,
        load: (bytes, threads) => new NativeProgram(addon, bytes, threads),
        assemble: (text) => new Uint8Array(addon.assemble(text)),
        compile: (model, options, diagnostics) => {
            const result = addon.compile(model, options, diagnostics);
            return typeof result === 'number' ? result : new Uint8Array(result);
        },
    });
}

/* Values of the addon: null, [1, dtype, dims, buffer, lengths of strings] or [kind, items]. */
function toAddon(plain) {
    if (plain.items)
        return [kindNumber(plain.kind), plain.items.map(toAddon)];
    return [kindNumber('tensor'), dtypeNumber(plain.dtype), plain.dims, plain.bytes, plain.lengths];
}

function fromAddon(value, seen = new Map()) {
    if (value === null || seen.has(value))
        return value === null ? null : seen.get(value);
    const [kind, ...parts] = value, isTensor = kindName(kind) === 'tensor';
    const copy = isTensor ? readTensor(...parts) : { kind: kindName(kind), items: [] };
    seen.set(value, copy);
    if (!isTensor)
        for (const item of parts[0])
            copy.items.push(fromAddon(item, seen));
    return copy;
}

function readTensor(number, dims, buffer, lengths) {
    const dtype = dtypeName(number);
    if (dtype !== 'str')
        return new Tensor(dtype, new (arrayType(dtype).Type)(buffer), dims);
    let at = 0;
    const strings = Array.from(new Uint32Array(lengths), (length) => decoder.decode(new Uint8Array(buffer, (at += length) - length, length)));
    return new Tensor('str', strings, dims);
}

/* Sessions that run beside this thread. The end of the process waits for them, so it stops them. */
const running = new Map();
function stopAll() {
    for (const [session, addon] of running)
        addon.cancel(session);
}

class NativeProgram {
    #addon;
    #program;
    #threads;
    #sessions = new Set();

    constructor(addon, bytes, threads = 0) {
        if (!Number.isInteger(threads) || threads < 0)
            throw new XcvmError('INVALID_ARGUMENT', `threads is ${threads}; expected an integer, 0 for one thread per processor`);
        this.#addon = addon;
        this.#threads = threads;
        this.#program = addon.load(bytes);
    }

    describe() {
        const { inputs, outputs, states, info } = this.#addon.describe(this.#program);
        const named = ({ kind, dtype, ...others }) => ({ ...others, kind: kindName(kind), dtype: dtypeName(dtype) });
        return { inputs: inputs.map(named), outputs: outputs.map(named), states: states.map(named), info };
    }

    get threads() { return this.#threads || (availableParallelism?.() ?? cpus().length); }

    /** The threads of a session that asks for `wanted`; 0: those of the program. */
    sessionThreads(wanted) { return wanted || this.#threads; }

    get memoryBytes() {
        let bytes = this.#addon.programBytes(this.#program);
        this.#sessions.forEach((session) => { bytes += session.memory.reservedBytes; });
        return bytes;
    }

    metadata(key) { return this.#addon.metadata(this.#program, key); }
    disassemble(literalLimit, explain) { return new Uint8Array(this.#addon.disassemble(this.#program, literalLimit, explain ? 1 : 0)); }

    createSession(options) {
        const session = new NativeSession(this.#addon, this.#program, options, () => this.#sessions.delete(session));
        this.#sessions.add(session);
        return session;
    }

    destroy() { this.#addon.destroyProgram(this.#program); }
}

class NativeSession {
    #addon;
    #session;
    #functions;
    #call;
    #print;
    #signal;
    #forget;

    constructor(addon, program, { memoryLimit, seed, flags, threads, statesOf, functions, call, print }, forget) {
        this.#addon = addon;
        this.#functions = functions.length;
        this.#call = call;
        this.#print = print;
        this.#forget = forget;
        this.#session = addon.createSession(program, memoryLimit, seed, flags, threads, statesOf?.#session, functions);
    }

    #callHost(number, inputs, outputCount) {
        const results = this.#call(number, inputs.map((value) => fromAddon(value)), outputCount).map(toAddon);
        this.#checkSignal();
        return results;
    }

    #checkSignal() {
        if (this.#signal?.aborted)
            this.#addon.cancel(this.#session);
    }

    setInput(index, plain) { this.#addon.setInput(this.#session, index, toAddon(plain)); }

    createInput(index, dtype, dims, isValid) {
        const memory = this.#addon.createInput(this.#session, index, dtypeNumber(dtype), dims);
        return new HeapTensor(dtype, dims, () => memory, 0, isValid);
    }

    run({ fuel, timeout, cancel, signal, observe, observeBefore }) {
        this.#signal = signal;
        try {
            this.#addon.run(this.#session, fuel, timeout, cancel, observe && ((...event) => this.#observe(event, observe)), observeBefore ? 1 : 0,
                signal?.aborted ? 1 : 0, (...parameters) => this.#callHost(...parameters), this.#print);
        } finally {
            this.#signal = undefined;
        }
    }

    /* Host functions and observers are called on this thread. */
    async runAsync(options) {
        const { fuel, timeout, cancel, signal, observe } = options;
        if (this.#functions > 0 || observe)
            return this.run(options);
        const stop = () => this.#addon.cancel(this.#session);
        if (running.size === 0)
            process.once('exit', stopAll);
        running.set(this.#session, this.#addon);
        signal?.addEventListener('abort', stop);
        try {
            const [text, error] = await this.#addon.runAsync(this.#session, fuel, timeout, cancel);
            if (text !== '')
                this.#print(text);
            if (error !== null)
                throw error;
        } finally {
            signal?.removeEventListener('abort', stop);
            running.delete(this.#session);
            if (running.size === 0)
                process.off('exit', stopAll);
        }
    }

    #observe([phase, numbers, texts, inputRegisters, outputRegisters], observe) {
        const status = observe(phase, numbers, (which) => texts[which], inputRegisters, outputRegisters,
            (output, i) => fromAddon(this.#addon.eventValue(this.#session, output, i)));
        this.#checkSignal();
        return status;
    }

    output(index, copy, isValid) {
        const value = this.#addon.getOutput(this.#session, index, copy ? 0 : 1);
        if (copy || value === null || kindName(value[0]) !== 'tensor' || dtypeName(value[1]) === 'str')
            return fromAddon(value);
        const [, dtype, dims, memory] = value;
        return new HeapTensor(dtypeName(dtype), dims, () => memory, 0, isValid);
    }

    warmUp() { this.#addon.warmUp(this.#session); }
    getState(index) { return fromAddon(this.#addon.getState(this.#session, index)); }
    setState(index, plain) { this.#addon.setState(this.#session, index, toAddon(plain)); }
    resetStates() { this.#addon.resetStates(this.#session); }
    saveStates() { return new Uint8Array(this.#addon.saveStates(this.#session)); }
    loadStates(bytes) { this.#addon.loadStates(this.#session, bytes); }

    get memory() {
        const [liveBytes, peakBytes, reservedBytes] = this.#addon.getMemory(this.#session);
        return { liveBytes, peakBytes, reservedBytes };
    }

    destroy() {
        this.#addon.destroySession(this.#session);
        this.#forget();
    }
}
