/* The only file that compiles stb's functions for writing images. They come as system headers, so their warnings are
 * not shown. */
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
