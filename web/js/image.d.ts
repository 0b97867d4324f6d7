/** Types of `xcvm/image`: images to tensors and back. */
import type { Source, Tensor, ValueInfo } from './index.js';

/** Pixels of 1, 3 or 4 channels; ImageData has 4. */
export interface Pixels { readonly data: Uint8ClampedArray | Uint8Array; readonly width: number; readonly height: number }
export type Filter = 'bilinear' | 'bicubic' | 'nearest';
export type Order = 'RGB' | 'BGR' | 'RGBA' | 'BGRA' | 'gray';
export type Layout = 'NCHW' | 'NHWC' | 'CHW' | 'HWC';
/** In browsers also an ImageBitmap, a VideoFrame, or an element of image, video or canvas. */
export type ImageSource = Pixels | Source | object;

export interface NumberOptions {
    /** Default: 'NCHW'. */
    layout?: Layout;
    /** Default: 'RGB'. */
    order?: Order;
    /** Default: 1 / 255, and 1 for u8. */
    scale?: number;
    /** For each channel, of values that are scaled. Default: 0. */
    mean?: number | readonly number[];
    /** Default: 1. */
    std?: number | readonly number[];
}
export interface ImageOptions extends NumberOptions {
    /** A declared input, from which size, layout, order and element type follow. */
    input?: ValueInfo;
    width?: number;
    height?: number;
    /** 'stretch' (default); 'cover' cuts the longer sides off; 'contain' adds margins. */
    fit?: 'stretch' | 'cover' | 'contain';
    filter?: Filter;
    /** Color of margins, or behind transparent pixels. */
    background?: number | readonly number[];
    /** 'ignore' (default) uses the colors of transparent pixels; 'blend' draws them over the background. */
    alpha?: 'ignore' | 'blend';
    dtype?: 'f32' | 'f64' | 'u8';
}

export function readPixels(image: ImageSource): Promise<Pixels & { channels: number }>;
export function resizePixels(image: Pixels, width: number, height: number, options?: { filter?: Filter; box?: readonly number[] }): Pixels & { channels: number };
export function pixelsToTensor(pixels: Pixels, options?: ImageOptions): Tensor;
export function imageToTensor(image: ImageSource, options?: ImageOptions): Promise<Tensor>;
export function tensorToImage(tensor: { dtype?: string; dims: readonly number[]; data: ArrayLike<number> }, options?: NumberOptions): Pixels;
