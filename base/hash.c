/* SipHash-1-3, a keyed hash. */
#include "base/hash.h"

#include <string.h>

typedef struct state {
    uint64_t a, b, c, d;
} state;

static uint64_t rotate(uint64_t x, unsigned bits) { return x << bits | x >> (64 - bits); }

static void mix(state *s)
{
    s->a += s->b;
    s->b = rotate(s->b, 13) ^ s->a;
    s->a = rotate(s->a, 32);
    s->c += s->d;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotate(s->b, 17) ^ s->c;
    s->c = rotate(s->c, 32);
}

static void add(state *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

uint64_t xcvm_hash(const xcvm_hash_key *key, const void *bytes, size_t count)
{
    state s = {key->words[0] ^ UINT64_C(0x736f6d6570736575), key->words[1] ^ UINT64_C(0x646f72616e646f6d),
               key->words[0] ^ UINT64_C(0x6c7967656e657261), key->words[1] ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = bytes;
    uint64_t word;
    for (size_t left = count; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        add(&s, word);
    }
    word = (uint64_t)count << 56;
    for (size_t i = 0; i < count % sizeof word; i++)
        word |= (uint64_t)at[i] << (8 * i);
    add(&s, word);
    s.c ^= 0xff;
    mix(&s);
    mix(&s);
    mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
