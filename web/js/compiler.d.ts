/** Types of `xcvm/compiler`: ONNX models to programs. */
import type { EngineOptions, Module, ModuleSource, Source } from './index.js';

export interface CompileOptions extends EngineOptions {
    /** Sizes of named dimensions. */
    dims?: Record<string, number>;
    /** 0: default (2); -1: required passes only; 1: no fusion; 2: all. */
    optimization?: number;
    /** Compile the inference form of the model. */
    inference?: boolean;
    strip?: boolean;
    flushSubnormals?: boolean;
    backprop?: boolean;
    loss?: string;
    wrt?: string | string[];
    /** Optimizer, such as "adam:lr=1e-3": compile a training program. */
    train?: string;
    /** With `train`: compile the program for evaluation, which has the same states and the inference form. */
    evaluate?: boolean;
    /** Pairs of outputs and inputs that become states, such as "present.*:past.*" or "auto". */
    states?: string | string[];
    cacheRows?: number;
    /** Storage of weights. */
    weights?: 'f32' | 'f24' | 'f16' | 'bf16' | 'q8' | 'q4' | 'q4a';
    /** Inputs with defaults that stay inputs. */
    defaultInputs?: string | string[];
    /** Milliseconds that the compilation may take. */
    timeout?: number;
    /** Bytes that the compilation may hold. */
    memoryLimit?: number;
    /** Receives lines of text about the compilation. */
    diagnostics?: (text: string) => void;
}

export function initCompiler(source?: ModuleSource, options?: EngineOptions): Promise<Module>;
export function compile(model: Source, options?: CompileOptions): Promise<Uint8Array>;
export function compileSync(model: Uint8Array, options: CompileOptions, module: Module): Uint8Array;
