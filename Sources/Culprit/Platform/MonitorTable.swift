import CCulpritLinux
import Glibc

/// A table of plain values, zero-filled, in pages of its own: resident only as far as it is used, and kept in memory from then
/// on as far as the process may.
final class MonitorTable<Element: BitwiseCopyable>: @unchecked Sendable {
  // SAFETY: the mapping lives as long as this object; who writes to it is agreed upon by those who have the pointer.
  let pointer: UnsafeMutablePointer<Element>
  private let bytes: Int
  private let kept: clinux_resident

  /// A table of `count` elements; `nil` when there is no memory.
  init?(count: Int) {
    bytes = count * MemoryLayout<Element>.stride
    guard let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
      memory != MAP_FAILED
    else { return nil }
    pointer = memory.bindMemory(to: Element.self, capacity: count)
    kept = clinux_keep_resident(memory, min(bytes, residentTableBytes))
    // The first page of a mapping takes the lock of the address space when it is touched, the others do not.
    memory.storeBytes(of: 0, as: UInt8.self)
  }

  deinit {
    clinux_let_go_resident(kept)
    munmap(pointer, bytes)
  }
}

/// Bytes of each table that stay resident: enough for the first few hundred sources.
let residentTableBytes = 64 << 10
