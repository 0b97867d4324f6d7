/** Types of `xcvm/audio`: sound to tensors. */
import type { Source, Tensor } from './index.js';

export interface Sound { readonly sampleRate: number; readonly channels: readonly Float32Array[] }
/** A sound, an AudioBuffer or a WAV file. */
export type AudioSource = Sound | Source | { readonly sampleRate: number; readonly numberOfChannels: number; getChannelData(channel: number): Float32Array };

export function decodeWav(bytes: Uint8Array): Sound;
export function readAudio(audio: AudioSource): Promise<Sound>;
export function mixChannels(channels: readonly Float32Array[]): Float32Array;
export function resample(samples: ArrayLike<number>, from: number, to: number): Float32Array;
export function audioToTensor(audio: AudioSource | Float32Array, options?: {
    /** Default: 16000. */
    sampleRate?: number;
    /** Sample rate of a Float32Array. */
    from?: number;
}): Promise<Tensor>;
export function frameSamples(samples: Float32Array, options: { length: number; hop?: number; pad?: boolean }): Tensor;
