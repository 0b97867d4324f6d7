/* What a server cannot do any more, so that a fault in it harms less. */
#ifndef XCVM_TOOLS_SERVE_SANDBOX_H
#define XCVM_TOOLS_SERVE_SANDBOX_H

#include "cli/options.h"

/* Restricts the files of this thread and of those that it creates (Landlock): the process reads the directories of the
 * operands and of the system, and changes nothing but Unix sockets in the directories of `sockets` ("unix:PATH" or a
 * path; NULL ends the list). It also reads the directories of `files`, which are read again later. Returns false if the
 * kernel cannot. */
bool sandbox_restrict_files(const struct arguments *operands, const char *const *sockets, const char *const *files);
/* Refuses system calls of all threads that a server does not need, such as execve, ptrace and mount (seccomp). Returns
 * false if the kernel cannot. */
bool sandbox_restrict_calls(void);

#endif
