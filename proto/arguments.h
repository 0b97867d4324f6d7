/* The argument structs of instructions, field by field: what decoder, encoder and text assembly have in common. */
#ifndef XCVM_PROTO_ARGUMENTS_H
#define XCVM_PROTO_ARGUMENTS_H

#include "base/allocator.h"
#include "ops/op.h"

/* A field of an argument struct, as what its kind makes it. */
static inline void *xcvm_field_at(const xcvm_field *f, void *args) { return (char *)args + f->offset; }
static inline const void *xcvm_field_of(const xcvm_field *f, const void *args)
{
    return (const char *)args + f->offset;
}
#define XCVM_FIELD(type, field, args) ((type *)xcvm_field_at((field), (args)))
#define XCVM_CFIELD(type, field, args) ((const type *)xcvm_field_of((field), (args)))

static inline bool xcvm_field_is_attribute(const xcvm_field *f) { return f->role == XCVM_ROLE_ATTRIBUTE; }

/* Makes `args`, of row->args_size bytes, zero but for the attributes' defaults. */
void xcvm_args_default(const xcvm_schema *schema, void *args);
/* Such a struct; NULL if there is no memory. */
void *xcvm_args_create(xcvm_arena *arena, const xcvm_schema *schema);
/* Whether a result, or an operand, of the field may be absent: an optional one, and an entry of a list of any values.
 */
static inline bool xcvm_field_may_be_absent(const xcvm_field *f)
{
    return f->kind == XCVM_FIELD_OPTIONAL || f->kind == XCVM_FIELD_ANYS;
}

/* How many entries a list field has, to be bound later. */
void xcvm_args_set_count(const xcvm_field *field, void *args, size_t count);

/* Fails with INVALID_PROGRAM unless an INT or INTS field may have that value. */
xcvm_status xcvm_field_check_int(xcvm_error *error, const xcvm_field *field, int64_t value);

/* Results of a row: how many there are at least, and whether a list of any number is among them. */
typedef struct xcvm_arity {
    size_t fixed;
    bool list;
} xcvm_arity;
xcvm_arity xcvm_schema_results(const xcvm_schema *schema);
/* Distributes `count` results over the fields; false if they do not fit. */
bool xcvm_args_set_results(const xcvm_schema *schema, void *args, size_t count);

/* "int", "list of strings", for messages. */
const char *xcvm_field_kind_name(const xcvm_field *field);

#endif
