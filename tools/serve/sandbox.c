/* Landlock (landlock(7)) and seccomp (seccomp(2)), by their system calls. */
#include "serve/sandbox.h"

#include "cli/memory.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__) && __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#define HAS_LANDLOCK 1
#else
#define HAS_LANDLOCK 0
#endif

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#define HAS_SECCOMP 1
#else
#define HAS_SECCOMP 0
#endif

/* ---- Files ---- */

#if HAS_LANDLOCK

#define READ_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXECUTE_FILES (READ_FILES | LANDLOCK_ACCESS_FS_EXECUTE)
#define MAKE_SOCKETS (LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE)
/* All rights of the first version. Those of later versions are not handled, so they depend on these or on modes. */
#define HANDLED ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

static void allow(int rules, const char *path, uint64_t access)
{
    const struct landlock_path_beneath_attr rule = {.allowed_access = access,
                                                    .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent_fd < 0)
        return; /* it does not exist, so there is nothing to allow */
    (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
}

/* Allows the directory of a path, or the path if it is one. */
static void allow_directory(int rules, const char *path, uint64_t access)
{
    if (file_is_folder(path)) {
        allow(rules, path, access);
        return;
    }
    char *folder = memory_text(path), *slash = strrchr(folder, '/');
    if (slash == NULL)
        allow(rules, ".", access);
    else
        slash[slash == folder] = '\0';
    if (slash != NULL)
        allow(rules, folder, access);
    free(folder);
}

/* Allows the directory where a file is, and the one where it really is if it is a symbolic link. */
static void allow_file(int rules, const char *path)
{
    allow_directory(rules, path, READ_FILES);
    char *resolved = realpath(path, NULL);
    if (resolved != NULL)
        allow_directory(rules, resolved, READ_FILES);
    free(resolved);
}

static void allow_model(int rules, const char *operand)
{
    const char *equals = strchr(operand, '='), *slash = strchr(operand, '/');
    allow_file(rules, equals != NULL && equals != operand && (slash == NULL || equals < slash) ? equals + 1 : operand);
}

bool sandbox_restrict_files(const struct arguments *operands, const char *const *sockets, const char *const *files)
{
    static const char *const libraries[] = {"/usr", "/lib", "/lib64", "/opt"};
    static const char *const settings[] = {"/etc", "/proc", "/sys", "/dev"};
    const struct landlock_ruleset_attr handled = {.handled_access_fs = HANDLED};
    const int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0);
    if (rules < 0)
        return false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        allow(rules, libraries[i], EXECUTE_FILES);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        allow(rules, settings[i], READ_FILES);
    for (size_t i = 0; i < operands->count; i++)
        allow_model(rules, operands->items[i]);
    for (; *sockets != NULL; sockets++)
        allow_directory(rules, strncmp(*sockets, "unix:", 5) == 0 ? *sockets + 5 : *sockets, MAKE_SOCKETS);
    for (; *files != NULL; files++)
        allow_file(rules, *files);
    const bool restricted =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return restricted;
}

#else

bool sandbox_restrict_files(const struct arguments *operands, const char *const *sockets, const char *const *files)
{
    (void)operands;
    (void)sockets;
    (void)files;
    return false;
}

#endif

/* ---- System calls ---- */

#if HAS_SECCOMP

#ifdef __x86_64__
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* The check for leaks at the end of a process traces it. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_TRACED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_TRACED 1
#endif
#endif

/* Calls that start programs, inspect other processes, change the system or its name spaces, or load code into the
 * kernel. Anything else may be needed by a library. */
static const int refused[] = {
#ifndef IS_TRACED
    SYS_ptrace,
#endif
    SYS_execve,
    SYS_execveat,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_quotactl,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
    SYS_personality,
    SYS_syslog,
    SYS_vhangup,
    SYS_kcmp,
    SYS_pidfd_getfd,
};

bool sandbox_restrict_calls(void)
{
    enum { COUNT = sizeof refused / sizeof *refused, BEFORE = 6 };
    struct sock_filter filter[BEFORE + 2 * COUNT + 1];
    size_t at = 0;
    const struct sock_filter start[BEFORE] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* The numbers of x32, which would bypass the list. */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    memcpy(filter, start, sizeof start);
    at = BEFORE;
    for (size_t i = 0; i < COUNT; i++) {
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i], 0, 1);
        filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = (unsigned short)at, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#else

bool sandbox_restrict_calls(void) { return false; }

#endif
