/** Types of the package `xcvm`: programs and sessions of the VM, in WebAssembly or in Node's addon. */

export type Dtype = 'f32' | 'u8' | 'i8' | 'u16' | 'i16' | 'i32' | 'i64' | 'str' | 'bool' | 'f16' | 'f64' | 'u32' | 'u64' | 'c64' |
    'c128' | 'bf16' | 'f8e4m3fn' | 'f8e4m3fnuz' | 'f8e5m2' | 'f8e5m2fnuz' | 'u4' | 'i4' | 'f4e2m1' | 'f8e8m0' | 'u2' | 'i2' | 'f24';
export type NumericArray = Float32Array | Float64Array | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array |
    Int32Array | Uint32Array | BigInt64Array | BigUint64Array;
export type Status = 'INVALID_ARGUMENT' | 'INVALID_PROGRAM' | 'INVALID_MODEL' | 'UNSUPPORTED' | 'SHAPE_MISMATCH' | 'TYPE_MISMATCH' |
    'OUT_OF_RANGE' | 'OUT_OF_MEMORY' | 'OUT_OF_TIME' | 'CANCELLED' | 'IO' | 'INTERNAL';
/** A URL, a path (Node), or bytes. */
export type Source = string | URL | Response | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;
export type ModuleSource = Source | WebAssembly.Module;
export type Engine = 'native' | 'wasm';
/** The native engine for Node. */
export interface NativeEngine { readonly engine: 'native'; readonly version: string }
/** Results of `init` and `initCompiler`. */
export type Module = WebAssembly.Module | NativeEngine;
export interface EngineOptions {
    /** Default in Node: the environment variable XCVM_ENGINE, or else 'native' if it is installed. */
    engine?: Engine;
}
export interface LoadOptions extends EngineOptions {
    module?: Module | Promise<Module>;
    /** Threads of the program's sessions, with the calling thread; 0: one per processor. Default: 1 in WebAssembly, 0 of the
     * native engine. A page needs cross-origin isolation for more than one; without it, the console gets a warning. */
    threads?: number;
}

export class XcvmError extends Error {
    readonly status: Status;
    /** Instruction index, or -1. */
    readonly pc: number;
    readonly instruction: string;
    /** Node of the model's graph. */
    readonly node: string;
}

/** A dense row-major tensor. */
export class Tensor {
    constructor(dtype: Dtype, data: NumericArray | string[], dims?: readonly number[]);
    readonly dtype: Dtype;
    readonly dims: readonly number[];
    readonly data: NumericArray | string[];
    readonly size: number;
}

/** A tensor in the VM's memory, without a copy. */
export class HeapTensor {
    private constructor();
    readonly dtype: Dtype;
    readonly dims: readonly number[];
    readonly size: number;
    /** A view of the memory. Read it again after every run. */
    readonly data: NumericArray;
}

export interface List { kind: 'sequence' | 'optional' | 'map'; items: (Value | List | null)[] }
export type Value = Tensor | HeapTensor;
export type Input = Value | List | NumericArray | number | bigint | boolean | string | readonly (number | bigint | string | boolean)[] | null |
    { dtype?: Dtype; dims: readonly number[]; data: NumericArray | readonly (number | bigint | string)[] };
/** Results by name. Tensors are HeapTensors with `copy: false`. */
export type Outputs = Record<string, any>;

export interface ValueInfo {
    readonly name: string;
    readonly kind: 'null' | 'tensor' | 'sequence' | 'optional' | 'map' | 'opaque';
    readonly dtype: Dtype | null;
    /** A dynamic dimension is its name, or null. The shape is null if the rank is dynamic. */
    readonly dims: readonly (number | string | null)[] | null;
}

export interface ProgramInfo {
    readonly format: number;
    readonly producer: string;
    readonly instructions: number;
    readonly registers: number;
    readonly constants: number;
    readonly constantBytes: number;
    readonly arenaBytes: number;
}

export interface SessionOptions {
    /** Bytes that the session may hold. */
    memoryLimit?: number;
    /** For random instructions without a seed of their own. */
    seed?: number;
    flushSubnormals?: boolean;
    strictTypes?: boolean;
    /** Threads of the session; 0 or none: those of the program. WebAssembly has no more than the program was loaded with. */
    threads?: number;
    /** Another session of the program, whose states are shared. */
    statesOf?: Session;
    /** Functions that the program calls with HostCall. */
    functions?: Record<string, (...inputs: any[]) => Input | Input[]>;
    /** Receives the text of Print instructions; default: console.log. */
    print?: (text: string) => void;
}

export interface Event {
    phase: 'before' | 'after';
    pc: number;
    instruction: string;
    node: string;
    attributes: string;
    start: number;
    milliseconds: number;
    flops: number;
    bytesRead: number;
    bytesWritten: number;
    liveBytes: number;
    /** Threads that ran parts of the instruction. */
    threads: number;
    /** Operands and results; `value` is a copy, made when it is read, during the callback only. */
    readonly inputs: { register: number; name: string; readonly value: any }[];
    readonly outputs: { register: number; name: string; readonly value: any }[];
}

export interface RunOptions {
    /** Most instructions to execute. */
    fuel?: number;
    /** Deadline in milliseconds. */
    timeout?: number;
    /** An Int32Array in shared memory; another thread stops the run by storing a number other than 0 in its first element. */
    cancel?: Int32Array;
    /** Checked before the run and between instructions. */
    signal?: AbortSignal;
    /** False: results are HeapTensors, valid until the next run. */
    copy?: boolean;
    /** Called after every instruction. False ends the run. */
    observe?: (event: Event) => boolean | void;
    /** Calls `observe` before every instruction, too. */
    observeBefore?: boolean;
}

export type InstructionProfile = Pick<Event, 'pc' | 'instruction' | 'node' | 'start' | 'milliseconds' | 'flops' | 'bytesRead' |
    'bytesWritten' | 'liveBytes' | 'threads'>;

export function init(source?: ModuleSource, options?: EngineOptions): Promise<Module>;
/** As `init`, for the module that programs with several threads use in WebAssembly. */
export function initThreads(source?: ModuleSource): Promise<WebAssembly.Module>;

export class Program {
    private constructor();
    static load(source: Source, options?: LoadOptions): Promise<Program>;
    static loadSync(bytes: Uint8Array, options: { module: Module }): Program;
    static compile(model: Source, options?: import('./compiler.js').CompileOptions & { threads?: number }): Promise<Program>;
    static assemble(text: string, options?: LoadOptions): Promise<Program>;
    readonly engine: Engine;
    readonly inputs: readonly ValueInfo[];
    readonly outputs: readonly ValueInfo[];
    readonly states: readonly ValueInfo[];
    readonly info: ProgramInfo;
    /** Threads that sessions may use. */
    readonly threads: number;
    /** Bytes of the program and its sessions; in WebAssembly, of the memory of its instance. */
    readonly memoryBytes: number;
    metadata(key: string): string | null;
    disassemble(options?: { literalLimit?: number; explain?: boolean }): string;
    createSession(options?: SessionOptions): Session;
    dispose(): void;
}

export class Session {
    private constructor();
    readonly program: Program;
    readonly running: boolean;
    readonly memory: { liveBytes: number; peakBytes: number; reservedBytes: number };
    setInput(name: string, value: Input): void;
    input(name: string, dims?: readonly number[]): HeapTensor;
    run(inputs?: Record<string, Input>, options?: RunOptions): Outputs;
    /** As `run`. The native engine runs beside this thread, unless there are host functions or an observer. */
    runAsync(inputs?: Record<string, Input>, options?: RunOptions): Promise<Outputs>;
    profile(inputs?: Record<string, Input>, options?: RunOptions): { outputs: Outputs; instructions: InstructionProfile[] };
    warmUp(): void;
    getState(name: string): any;
    setState(name: string, value: Input): void;
    resetStates(): void;
    saveStates(): Uint8Array;
    loadStates(bytes: Uint8Array): void;
    dispose(): void;
}
