import CCulpritLinux
import Glibc

/// A zero-filled table of plain values in separate pages. Only used pages become resident; they are locked into memory
/// within the process's limit.
final class MonitorTable<Element: BitwiseCopyable>: @unchecked Sendable {
  // SAFETY: the mapping lives as long as this object. Owners of the pointer agree on which thread writes.
  let pointer: UnsafeMutablePointer<Element>
  private let bytes: Int
  private let kept: clinux_resident

  init?(count: Int) {
    bytes = count * MemoryLayout<Element>.stride
    guard let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
      memory != MAP_FAILED
    else { return nil }
    pointer = memory.bindMemory(to: Element.self, capacity: count)
    kept = clinux_keep_resident(memory, min(bytes, residentTableBytes))
    // The first access to a mapping takes the lock of the address space.
    memory.storeBytes(of: 0, as: UInt8.self)
  }

  deinit {
    clinux_let_go_resident(kept)
    munmap(pointer, bytes)
  }
}

/// Bytes of each table that stay resident: enough for the first few hundred sources.
let residentTableBytes = 64 << 10
