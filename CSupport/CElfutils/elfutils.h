/* The parts of elfutils that Culprit uses: libelf (ELF files) and libdw (DWARF). */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>
