/* The in-memory form of a program. Compiler and assembler produce it; loader, disassembler and strip read it. One
 * decoder and one encoder are driven by the fields of the op definitions. */
#ifndef XCVM_PROTO_IMAGE_H
#define XCVM_PROTO_IMAGE_H

#include "ops/op.h"

enum { XCVM_FORMAT = 1 };

typedef struct xcvm_slot {
    uint64_t offset, bytes; /* bytes 0: not planned */
} xcvm_slot;

typedef struct xcvm_debug {
    const char *node;       /* never NULL */
    const char **names;     /* names of the results; NULL if unknown, else out_count non-NULL entries */
    const xcvm_type *types; /* types of the results, likewise */
    uint64_t flops;
} xcvm_debug;

typedef struct xcvm_instruction {
    const xcvm_schema *schema;
    /* The instruction's argument struct with attributes filled in. Operand pointers are NULL; list fields have a count
     * and a NULL `at`. Sessions bind operands in a copy. */
    void *args;
    /* Operands in definition order, lists expanded. Positive: register; 0: absent; negative: constant -1 - entry. */
    const int32_t *in;
    /* Result registers, likewise; 0: absent. */
    const int32_t *out;
    uint32_t in_count, out_count;
    const xcvm_slot *slots; /* out_count entries, or NULL */
    xcvm_debug debug;
} xcvm_instruction;

typedef struct xcvm_constant {
    const char *name;
    xcvm_value value; /* memory_kind CONSTANT; data borrowed from the decoded bytes or the producer */
    uint64_t offset;  /* offset in the file's data; set by decode */
} xcvm_constant;

/* A tensor that a session keeps between runs. */
typedef struct xcvm_state_declaration {
    xcvm_value_info declared; /* name and type; dimensions may be open */
    uint32_t initial;         /* index of the initial constant, plus 1; 0: zeros, with open dimensions of size 0 */
} xcvm_state_declaration;

typedef struct xcvm_library {
    const char *file;
    uint8_t hash[32]; /* SHA-256 */
    uint32_t abi;
    const char *isa;
} xcvm_library;

typedef struct xcvm_metadata {
    const char *key, *value;
} xcvm_metadata;

typedef struct xcvm_image {
    uint32_t format;
    const char *producer;
    xcvm_value_info *inputs, *outputs;
    size_t input_count, output_count;
    xcvm_instruction *instructions;
    size_t instruction_count;
    xcvm_constant *constants;
    size_t constant_count;
    xcvm_library *libraries;
    size_t library_count;
    xcvm_metadata *metadata;
    size_t metadata_count;
    xcvm_state_declaration *states;
    size_t state_count;
    uint64_t arena_bytes;
    uint64_t data_offset; /* offset of the constants in the file; set by decode */
    uint64_t data_bytes;
} xcvm_image;

/* Decodes a program file into `arena`. Constants' elements are borrowed from `bytes` and are 64-byte aligned only if
 * `bytes` is. Checks each message by itself: known instructions, operands and attributes against the op definition,
 * ranges, dtypes, ranks, names without NUL, and constants that are aligned, ascending, inside the data and of the right
 * size. Values are canonical: gapless strings in order, bools 0 or 1, unused bits of packed types 0. vm/verify.c checks
 * everything about the program as a whole. Messages name the instruction ("instruction 12 (Conv): ..."). Memory is
 * proportional to the bytes before the constants. */
xcvm_status xcvm_image_decode(const void *bytes, size_t count, const xcvm_allocator *allocator, xcvm_arena *arena,
                              xcvm_image *image, xcvm_error *error);
/* Encodes deterministically: equal images give equal bytes. Constants are canonicalized as decode requires. Their
 * elements go to the sink in pieces. `allocator` may be NULL. */
xcvm_status xcvm_image_encode(const xcvm_image *image, const xcvm_allocator *allocator, xcvm_sink sink,
                              xcvm_error *error);

/* Copies `args` into `arena` in the form of xcvm_instruction.args, without operand pointers. Returns NULL if there is
 * no memory. */
void *xcvm_args_detach(xcvm_arena *arena, const xcvm_schema *schema, const void *args);

/* Text assembly (assembler.c, disassembler.c; docs/assembly.md). The assembler allocates its results in `arena`,
 * including constants. */
xcvm_status xcvm_image_disassemble(const xcvm_image *image, const xcvm_disassemble_options *options, xcvm_sink sink,
                                   xcvm_error *error);
xcvm_status xcvm_image_assemble(const char *text, size_t length, const char *base_dir, const xcvm_allocator *allocator,
                                xcvm_arena *arena, xcvm_image *image, xcvm_error *error);
/* Writes the attributes of one instruction as in text assembly, e.g. "strides=[2 2] group=1", truncated to `size`. */
const char *xcvm_attributes_describe(const xcvm_schema *schema, const void *args, char *text, size_t size);
/* Writes a type as in text assembly: "f32[Nx3x224x224]", "seq(f32)", "?". */
const char *xcvm_type_describe(const xcvm_type *type, char *text, size_t size);

#endif
