/* Which copy the calling thread reads: from the CPU on which it runs right now. No syscall. */
#ifndef NM_READER_H
#define NM_READER_H

/* Finds the cheapest way to ask for the CPU; call once, before any thread asks. */
void nm_reader_init(void);

/* Index of the copy, or -1: read the primary. A thread that migrates right after the answer
 * reads a remote copy of the same bytes: slower, never wrong. */
int nm_reader_copy(void);

/* In a rehearsal: this thread reads that copy from now on. */
void nm_reader_pretend(int copy);

#endif
