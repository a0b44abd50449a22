import CCulpritLinux
import CulpritStallRecord
import Glibc

enum ProcessMap {
  /// Reads `/proc/self/maps`, and the build-id of each module from memory.
  ///
  /// dl_iterate_phdr(3) takes the loader's lock, which the stalled thread might hold. Files might have been replaced
  /// since they were mapped.
  static func modules() -> [Module] {
    guard let text = readAll("/proc/thread-self/maps") else { return [] }
    return modules(maps: text, header: header)
  }

  /// Returns the loader's module at `address`, a substitute for an unreadable `/proc/self/maps`.
  static func module(at address: RuntimeAddress) -> Module? {
    var start: UInt64 = 0
    var file = [CChar](repeating: 0, count: Int(PATH_MAX))
    guard clinux_module_file(address.value, &start, &file, file.count) else { return nil }
    let name = String(decoding: file.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let path = name.isEmpty ? executablePath() : name.hasPrefix("/") ? name : "[vdso]"
    let segments = programHeaders(at: RuntimeAddress(start)).filter { $0.p_type == UInt32(PT_LOAD) }
    guard let first = segments.map(\.p_vaddr).min() else { return nil }
    let page: UInt64 = 4096
    let base = start &- (first & ~(page &- 1))
    let mappings = segments.filter { $0.p_flags & UInt32(PF_X) != 0 }
      .map { segment in
        let skew = segment.p_vaddr % page
        return Module.Mapping(
          start: RuntimeAddress(base &+ segment.p_vaddr &- skew),
          end: RuntimeAddress(base &+ segment.p_vaddr &+ segment.p_filesz),
          fileOffset: segment.p_offset &- skew
        )
      }
    return Module(path: path, buildID: header(at: RuntimeAddress(start)).buildID, mappings: mappings, bias: base)
  }

  /// Returns the debugger of this process (proc(5), TracerPid).
  static func debugger() -> Int32? {
    let line = readAll("/proc/self/status")?.split(separator: "\n").first { $0.hasPrefix("TracerPid:") }
    return line.flatMap { Int32($0.dropFirst(10).filter(\.isNumber)) }.flatMap { $0 == 0 ? nil : $0 }
  }

  /// Returns the path of this process's executable; empty if unknown.
  static func executablePath() -> String {
    if let path = target(ofLink: "/proc/thread-self/exe") { return path }
    // /proc is not mounted.
    guard let started = clinux_module_executable() else { return "" }
    guard let resolved = realpath(started, nil) else { return String(cString: started) }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  static func target(ofLink path: String) -> String? {
    var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
  }

  /// Returns the modules in the text of a `/proc/PID/maps` file (proc(5)), in the order of their first executable
  /// mapping. `header` reads the ELF header at an address.
  static func modules(maps: String, header: (RuntimeAddress) -> Header) -> [Module] {
    var order: [(key: String, first: MapsLine)] = []
    var mappings: [String: [Module.Mapping]] = [:]
    var beginnings: [String: RuntimeAddress] = [:]
    var headers: [String: RuntimeAddress] = [:]
    for line in maps.split(separator: "\n") {
      guard let entry = MapsLine(line), entry.path.hasPrefix("/") || entry.path == "[vdso]" else { continue }
      // Two deleted files can have had the same path.
      let key = entry.path + "\0" + entry.identity
      // The file can also be mapped elsewhere as data. The loader's mappings are contiguous, so the last ELF header
      // before the first executable mapping is the right one.
      if entry.mapping.fileOffset == 0 { beginnings[key] = entry.mapping.start }
      guard entry.isExecutable else { continue }
      if headers[key] == nil { headers[key] = beginnings[key] }
      if mappings[key] == nil { order.append((key, entry)) }
      add(entry.mapping, to: &mappings[key, default: []])
    }
    return order.map { key, entry in
      let header = headers[key].map(header) ?? Header()
      var module = Module(
        path: entry.path,
        buildID: header.buildID,
        mappings: mappings[key] ?? [],
        bias: header.bias
      )
      module.identity = entry.identity
      return module
    }
  }

  /// Adds a mapping, merged with its predecessor if they are contiguous: locking memory splits mappings.
  private static func add(_ mapping: Module.Mapping, to mappings: inout [Module.Mapping]) {
    if let last = mappings.last, last.end == mapping.start,
      last.fileOffset &+ (last.end.value &- last.start.value) == mapping.fileOffset
    {
      mappings[mappings.count - 1].end = mapping.end
    } else {
      mappings.append(mapping)
    }
  }

  struct Header {
    var buildID: [UInt8] = []
    /// The offset of the image from its linked address.
    var bias: UInt64?
  }

  /// One line: `55d0a000-55d0b000 r-xp 00001000 fe:00 1234   /usr/bin/name with spaces`.
  private struct MapsLine {
    var mapping: Module.Mapping
    var isExecutable: Bool
    var path: String
    /// The device and the inode.
    var identity: String

    init?(_ line: Substring) {
      let fields = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
      guard fields.count == 6 else { return nil }
      let range = fields[0].split(separator: "-")
      guard range.count == 2, let start = UInt64(range[0], radix: 16), let end = UInt64(range[1], radix: 16),
        let offset = UInt64(fields[2], radix: 16)
      else { return nil }
      mapping = Module.Mapping(start: RuntimeAddress(start), end: RuntimeAddress(end), fileOffset: offset)
      isExecutable = fields[1].contains("x")
      path = String(fields[5].drop(while: { $0 == " " }))
      identity = "\(fields[3]) \(fields[4])"
    }
  }

  private static func programHeaders(at base: RuntimeAddress) -> [Elf64_Phdr] {
    guard let header: Elf64_Ehdr = read(base.value), header.e_ident.0 == 0x7f, header.e_ident.1 == UInt8(ascii: "E"),
      header.e_phentsize == MemoryLayout<Elf64_Phdr>.size
    else { return [] }
    var segments: [Elf64_Phdr] = []
    for index in 0..<UInt64(header.e_phnum) {
      guard
        let segment: Elf64_Phdr = read(base.value &+ header.e_phoff &+ index &* UInt64(MemoryLayout<Elf64_Phdr>.size))
      else { return [] }
      segments.append(segment)
    }
    return segments
  }

  private static func header(at base: RuntimeAddress) -> Header {
    let segments = programHeaders(at: base)
    var header = Header()
    let page: UInt64 = 4096
    if let first = segments.first(where: { $0.p_type == UInt32(PT_LOAD) && $0.p_offset < page }) {
      header.bias = base.value &- (first.p_vaddr &- first.p_offset)
    }
    // Notes are in the segment that begins at file offset 0, which is mapped at `base`.
    let notes = segments.lazy.filter { $0.p_type == UInt32(PT_NOTE) }
    let ids = notes.compactMap { buildID(notesAt: base.value &+ $0.p_offset, bytes: $0.p_filesz) }
    header.buildID = ids.first ?? []
    return header
  }

  /// Searches notes (elf(5)) for the build-id. A note has a name size, a description size and a type, then name and
  /// description, each padded to a multiple of four bytes.
  private static func buildID(notesAt start: UInt64, bytes: UInt64) -> [UInt8]? {
    var position: UInt64 = 0
    while position &+ 12 <= min(bytes, 1 << 16) {
      guard let note: Elf64_Nhdr = read(start &+ position) else { return nil }
      let nameBytes = (UInt64(note.n_namesz) &+ 3) & ~3
      let description = position &+ 12 &+ nameBytes
      if note.n_type == UInt32(NT_GNU_BUILD_ID), note.n_namesz == 4, note.n_descsz <= 64,
        let name: UInt32 = read(start &+ position &+ 12), name == 0x0055_4e47  // "GNU\0"
      {
        var id = [UInt8](repeating: 0, count: Int(note.n_descsz))
        guard clinux_memory_read(start &+ description, &id, id.count) else { return nil }
        return id
      }
      position = description &+ (UInt64(note.n_descsz) &+ 3) & ~3
    }
    return nil
  }

  private static func read<Value: BitwiseCopyable>(_ address: UInt64) -> Value? {
    withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { room in
      guard let place = room.baseAddress, clinux_memory_read(address, place, MemoryLayout<Value>.size) else {
        return nil
      }
      // SAFETY: the whole value has been filled, and every bit pattern is valid for these C types.
      return place.pointee
    }
  }

  /// Reads a file in `/proc`, which has no size. Returns `nil` if it cannot be read or exceeds `bytesMax` bytes.
  static func readAll(_ path: String, atMost bytesMax: Int = .max) -> String? {
    var file = clinux_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC))
    defer { clinux_descriptor_close(&file) }
    // The buffer grows as needed, because the allocator keeps memory once it has been written to.
    var bytes: [UInt8] = []
    bytes.reserveCapacity(32 << 10)
    while true {
      // The application might have closed the descriptor and reused its number.
      guard clinux_descriptor_is_ours(&file) else { return nil }
      let count = withUnsafeTemporaryAllocation(byteCount: 4 << 10, alignment: 1) { chunk in
        let count = Glibc.read(file.number, chunk.baseAddress, chunk.count)
        if count > 0 { bytes += chunk[..<count] }
        return count
      }
      if count < 0, errno == EINTR { continue }
      guard bytes.count <= bytesMax else { return nil }
      guard count > 0 else { return count == 0 ? String(decoding: bytes, as: UTF8.self) : nil }
    }
  }
}
