/* Cleanup: files and folders that must not stay behind if the process ends before they are finished. */
#ifndef XCVM_TOOLS_IO_CLEANUP_H
#define XCVM_TOOLS_IO_CLEANUP_H

/* From now on a signal or exit removes `path`, a file or a folder with the files in it. The text must stay where it is
 * until it is forgotten. */
void cleanup_register(char *path);
void cleanup_forget(char *path);

/* Removes a file, or a folder and the files in it. Calls nothing that a signal handler may not. */
void cleanup_remove(const char *path);

#endif
