/* Cleanup of unfinished files and directories when the process ends. */
#ifndef XCVM_TOOLS_IO_CLEANUP_H
#define XCVM_TOOLS_IO_CLEANUP_H

/* Registers `path`, a file or a directory with its files, for removal at a signal or exit. The text must stay
 * valid until cleanup_forget. */
void cleanup_register(char *path);
void cleanup_forget(char *path);

/* Removes a file, or a directory and its files. Async-signal-safe. */
void cleanup_remove(const char *path);

#endif
