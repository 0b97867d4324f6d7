/* Tests of the memory that connections share. */
#include "server/common/share.h"
#include "tests/suites.h"

#include <stdint.h>

#define MIB ((size_t)1 << 20)

START_TEST(limits)
{
    ck_assert_uint_eq(xcs_share_limit(1000), 256 * MIB);
    ck_assert_uint_eq(xcs_share_limit(1024 * MIB), 8192 * MIB);
}
END_TEST

/* A connection may hold half of what the others leave. */
START_TEST(parts)
{
    xcs_share share = {.limit = 256 * MIB};
    size_t greedy = 0, other = 0, held[4] = {0};
    ck_assert(xcs_share_hold(&share, &greedy, &held[0], 100 * MIB));
    ck_assert(xcs_share_hold(&share, &greedy, &held[1], 28 * MIB));
    ck_assert(!xcs_share_hold(&share, &greedy, &held[2], 1));
    ck_assert(xcs_share_hold(&share, &greedy, &held[2], 0));
    ck_assert(xcs_share_hold(&share, &other, &held[3], 64 * MIB));
    ck_assert(!xcs_share_hold(&share, &other, &held[3], 64 * MIB + 1));
    ck_assert(xcs_share_hold(&share, &other, &held[3], 64 * MIB)); /* less than before */
    ck_assert(!xcs_share_hold(&share, &greedy, &held[1], 29 * MIB));
    (void)xcs_share_hold(&share, &greedy, &held[0], 0);
    (void)xcs_share_hold(&share, &greedy, &held[1], 0);
    ck_assert(xcs_share_hold(&share, &other, &held[2], 64 * MIB));
    ck_assert_uint_eq(other, 128 * MIB);
    (void)xcs_share_hold(&share, &other, &held[2], 0);
    (void)xcs_share_hold(&share, &other, &held[3], 0);
    ck_assert_uint_eq(greedy, 0);
    ck_assert_uint_eq(other, 0);
    ck_assert_uint_eq(share.held, 0);
}
END_TEST

START_TEST(alone)
{
    xcs_share share = {.limit = 256 * MIB};
    size_t connection = 0, held[2] = {0};
    ck_assert(xcs_share_hold(&share, &connection, &held[0], 1024 * MIB));
    ck_assert(!xcs_share_hold(&share, &connection, &held[1], 1));
    ck_assert(xcs_share_hold(&share, NULL, &held[1], MIB)); /* of a connection that is closed */
    ck_assert_uint_eq(share.held, 1025 * MIB);
}
END_TEST

Suite *suite_server_share(void);
Suite *suite_server_share(void) { return SUITE_OF("server_share", limits, parts, alone); }
