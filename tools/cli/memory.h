/* Memory of the command. If an allocation fails, the process prints a message and ends with the exit code of a
 * limit, because the command cannot continue without these few bytes. Tensors use other allocators. */
#ifndef XCVM_TOOLS_CLI_MEMORY_H
#define XCVM_TOOLS_CLI_MEMORY_H

#include <stddef.h>

/* Returns zeroed memory. Release it with free. */
void *memory_take(size_t count, size_t size);
/* Resizes `old` (may be NULL) to `count` elements of `size` bytes. New elements are not initialized. */
void *memory_grow(void *old, size_t count, size_t size);
char *memory_text(const char *text);
char *memory_text_n(const char *text, size_t length);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Grows an array of `count` elements by one. The capacity doubles whenever count is a power of two: items =
 * memory_append(items, count, sizeof *items). */
void *memory_append(void *items, size_t count, size_t size);

#endif
