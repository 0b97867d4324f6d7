/* Signatures: what two calls must have in common to run as one. */
#include "ops/shape.h"
#include "tape/batch.h"

#include <string.h>

static bool put(tape_key *k, uint64_t word)
{
    if (k->count == TAPE_KEY_WORDS)
        return false;
    k->words[k->count++] = word;
    return true;
}

static bool put_bytes(tape_key *k, const void *from, size_t bytes)
{
    const size_t words = (bytes + 7) / 8;
    if (!put(k, bytes) || words > TAPE_KEY_WORDS - k->count)
        return false;
    if (words > 0) {
        k->words[k->count + words - 1] = 0;
        memcpy(&k->words[k->count], from, bytes);
    }
    k->count += words;
    return true;
}

static bool put_attribute(tape_key *k, const xcvm_field *f, const void *at)
{
    const xcvm_ints *ints = at;
    const xcvm_floats *floats = at;
    const xcvm_text *text = at;
    switch (f->kind) {
    case XCVM_FIELD_INT:
    case XCVM_FIELD_FLOAT:
        return put(k, *(const uint64_t *)at);
    case XCVM_FIELD_DTYPE:
    case XCVM_FIELD_CHOICE:
        return put(k, *(const uint32_t *)at);
    case XCVM_FIELD_INTS:
        return put_bytes(k, ints->at, ints->count * sizeof *ints->at);
    case XCVM_FIELD_FLOATS:
        return put_bytes(k, floats->at, floats->count * sizeof *floats->at);
    case XCVM_FIELD_TEXT:
        return put_bytes(k, text->at, text->length);
    default:
        return f->kind == XCVM_FIELD_NONE;
    }
}

/* Packed elements cannot be laid one behind the other, nor can none. */
static bool put_type(tape_key *k, const xcvm_value *type, bool requires)
{
    if (type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_STRING || type->bytes == 0 ||
        xcvm_dtype_bits((xcvm_dtype)type->dtype) % 8 != 0 ||
        !put(k, (uint64_t)type->dtype | (uint64_t)(uint8_t)type->rank << 8 | (uint64_t) requires << 16))
        return false;
    for (int i = 0; i < type->rank; i++)
        if (!put(k, (uint64_t)type->dims[i]))
            return false;
    return true;
}

/* Parameters, and matrices that are kept as those are. */
static bool is_weight(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && (v->requires || (v->kept && type->rank > 1 && type->dims[type->rank - 1] > 1 &&
                                                  type->dims[type->rank - 2] > 1));
}

static bool put_operand(tape_key *k, const tape_form *form, uint32_t index, const tape_variable *v)
{
    if (v == NULL)
        return put(k, 0);
    const xcvm_value *type = &v->value.type;
    if (is_weight(v))
        return put(k, (uintptr_t)v) && put_type(k, type, v->requires);
    if (!put_type(k, type, v->requires))
        return false;
    if (!tape_form_needs_same(form, index))
        return true;
    if (type->data != NULL && !v->requires && type->bytes <= TAPE_SMALL)
        return put_bytes(k, type->data, type->bytes);
    return put(k, (uintptr_t)v);
}

static bool make_key(const tape_record *r, tape_key *key)
{
    const tape_form *form = r->schema->effect == XCVM_PURE ? tape_form_of(r->schema) : NULL;
    key->count = 0;
    if (form == NULL || !put(key, (uint64_t)r->schema->opcode | (uint64_t)r->flows << 32) ||
        !put(key, (uint64_t)r->in_count << 32 | r->out_count))
        return false;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->role == XCVM_ROLE_ATTRIBUTE && !put_attribute(key, field, (const char *)r->args + field->offset))
            return false;
    }
    for (uint32_t i = 0; i < r->in_count; i++)
        if (!put_operand(key, form, i, r->in[i]))
            return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (!(r->out[i] != NULL ? put_type(key, &r->out[i]->value.type, r->out[i]->requires) : put(key, 0)))
            return false;
    return true;
}

/* ---- Kinds ---- */

typedef struct known {
    const uint64_t *words;
    size_t count;
    uint64_t hash;
} known;

typedef struct tape_signatures {
    xcvm_arena arena;
    known *known; /* from 1 on */
    uint32_t count, capacity;
    uint32_t *slots;
} tape_signatures;

enum { FIRST = 256, SLOTS_EACH = 4, MANY = 4096 };

static uint64_t hash_of(const tape_key *key)
{
    uint64_t hash = key->count;
    for (size_t i = 0; i < key->count; i++) {
        hash = (hash ^ key->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static uint32_t *slot_of(const tape_signatures *k, const tape_key *key, uint64_t hash)
{
    const uint32_t mask = k->capacity * SLOTS_EACH - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        const known *found = &k->known[k->slots[at]];
        if (k->slots[at] == 0 || (found->hash == hash && found->count == key->count &&
                                  memcmp(found->words, key->words, key->count * sizeof *key->words) == 0))
            return &k->slots[at];
    }
}

static bool grow(tape_signatures *k)
{
    const uint32_t capacity = k->capacity > 0 ? 2 * k->capacity : FIRST, mask = capacity * SLOTS_EACH - 1;
    known *larger = xcvm_arena_allocate(&k->arena, capacity * sizeof *larger);
    uint32_t *slots = xcvm_arena_allocate(&k->arena, (size_t)capacity * SLOTS_EACH * sizeof *slots);
    if (larger == NULL || slots == NULL)
        return false;
    for (uint32_t i = 1; i < k->count; i++) {
        uint32_t at = (uint32_t)k->known[i].hash & mask;
        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i;
        larger[i] = k->known[i];
    }
    k->known = larger;
    k->slots = slots;
    k->capacity = capacity;
    k->count = k->count > 0 ? k->count : 1;
    return true;
}

static tape_signatures *signatures_of(xcvm_tape *t)
{
    if (t->signatures == NULL && (t->signatures = xcvm_allocate_zeroed(t->allocator, sizeof *t->signatures)) != NULL)
        t->signatures->arena.allocator = t->allocator;
    return t->signatures;
}

uint32_t tape_signature_of(xcvm_tape *t, const tape_record *r)
{
    tape_key key;
    if (!make_key(r, &key))
        return 0;
    tape_signatures *k = signatures_of(t);
    if (k == NULL || (k->count == k->capacity && !grow(k)))
        return 0;
    const uint64_t hash = hash_of(&key);
    uint32_t *slot = slot_of(k, &key, hash);
    if (*slot == 0) {
        uint64_t *words = xcvm_arena_allocate(&k->arena, key.count * sizeof *words);
        if (words == NULL)
            return 0;
        memcpy(words, key.words, key.count * sizeof *words);
        k->known[k->count] = (known){words, key.count, hash};
        *slot = k->count++;
    }
    return *slot;
}

void tape_signatures_clear(xcvm_tape *t)
{
    if (t->signatures != NULL && t->signatures->count > MANY)
        tape_signatures_release(t);
}

void tape_signatures_release(xcvm_tape *t)
{
    if (t->signatures == NULL)
        return;
    xcvm_arena_release(&t->signatures->arena);
    xcvm_deallocate(t->allocator, t->signatures, sizeof *t->signatures);
    t->signatures = NULL;
}
