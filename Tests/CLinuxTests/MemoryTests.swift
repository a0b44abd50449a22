import CCulpritLinux
import Glibc
import TestWorkloads
import Testing

@Suite(.serialized) struct MemoryTests {
  /// Maps `count` pages in which each byte depends on its position. The page `absent` cannot be read.
  private func withPages(_ count: Int, absent: Int? = nil, _ body: (UInt64) throws -> Void) throws {
    let bytes = count * page
    let memory = try #require(mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    try #require(memory != MAP_FAILED)
    defer { munmap(memory, bytes) }
    for place in 0..<bytes { memory.storeBytes(of: Self.byte(place), toByteOffset: place, as: UInt8.self) }
    // The page stays mapped, so that no other mapping takes its address.
    if let absent { mprotect(memory + absent * page, page, PROT_NONE) }
    try body(UInt64(UInt(bitPattern: memory)))
  }

  private static func byte(_ place: Int) -> UInt8 { UInt8(truncatingIfNeeded: place / page * 7 + place * 13) }

  private func read(_ address: UInt64, _ length: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0xee, count: length)
    return clinux_memory_read(address, &bytes, length) ? bytes : nil
  }

  private func expected(_ place: Int, _ length: Int) -> [UInt8] { (place..<place + length).map(Self.byte) }

  @Test func readsMappedMemory() throws {
    try withPages(12) { start in
      for (place, length) in [
        (0, 1), (0, page), (1, page), (page - 1, 2), (5, 8 * page), (0, 12 * page), (3, 4 * page), (0, 4 * page + 1),
        (7, 5 * page), (12 * page - 1, 1),
      ] {
        #expect(read(start + UInt64(place), length) == expected(place, length), "\(place), \(length)")
        var bytes = [UInt8](repeating: 0, count: length)
        #expect(clinux_memory_read_some(start + UInt64(place), &bytes, length) == length)
        #expect(bytes == expected(place, length), "\(place), \(length)")
      }
    }
  }

  /// Memory is read by writing it to a file. File size limits must cause neither SIGXFSZ nor failed reads.
  @Test func survivesFileSizeLimit() {
    #expect(workload_fork { pagesReadWithLimits() } == 4)
    #expect(
      workload_fork {
        _ = clinux_mask_set(clinux_mask_of_own_threads())
        clinux_context_enter_watchers()
        return pagesReadWithLimits()
      } == 4
    )
  }

  /// A read returns everything or nothing; a partial read ends at the first unreadable page.
  @Test func stopsAtUnmappedMemory() throws {
    for absent in 1..<11 {
      try withPages(11, absent: absent) { start in
        let end = absent * page
        #expect(read(start + UInt64(end) - 8, 8) == expected(end - 8, 8))
        #expect(read(start + UInt64(end) - 8, 9) == nil && read(start + UInt64(end), 1) == nil)
        #expect(read(start, 11 * page) == nil)
        for place in [0, 5, end - 1] {
          var bytes = [UInt8](repeating: 0, count: 11 * page)
          let count = clinux_memory_read_some(start + UInt64(place), &bytes, 11 * page - place)
          #expect(count == end - place, "\(absent), \(place)")
          #expect(Array(bytes[..<count]) == expected(place, count))
        }
        var byte: UInt8 = 0
        #expect(clinux_memory_read_some(start + UInt64(end), &byte, 1) == 0)
      }
    }
    for address in [0, 8, UInt64.max - 7, 1 << 63] {
      #expect(read(address, 8) == nil)
      var bytes: UInt64 = 0
      #expect(clinux_memory_read_some(address, &bytes, 8) == 0)
    }
  }

  @Test func preservesErrno() {
    errno = 4711
    _ = read(8, 8)
    #expect(errno == 4711)
  }

  private func isIn(_ address: UInt64, _ module: clinux_module) -> Bool {
    (module.start..<module.end).contains(address)
  }

  /// The start and the path of the file mapped at `address`, from /proc/self/maps.
  private func mapping(of address: UInt64) -> (start: UInt64, path: String)? {
    guard let file = fopen("/proc/self/maps", "re") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 4096)
    var starts: [String: UInt64] = [:]
    while fgets(&line, Int32(line.count), file) != nil {
      let text = String(decoding: line.prefix { $0 > 10 || $0 < 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      let fields = text.split(separator: " ", maxSplits: 5)
      let range = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      guard fields.count == 6, range.count == 2 else { continue }
      let path = String(fields[5].drop { $0 == " " })
      // A file can be mapped more than once: the unwinder's namespace has a separate C library.
      if UInt64(fields[2], radix: 16) == 0 { starts[path] = range[0] }
      if (range[0]..<range[1]).contains(address) { return starts[path].map { ($0, path) } }
    }
    return nil
  }

  /// A module begins at the mapping of its file. Memory without a file has no module.
  @Test func findsModuleOfCode() throws {
    let symbol = try #require(dlsym(nil, "getaddrinfo"))
    let address = UInt64(UInt(bitPattern: symbol))
    var module = clinux_module()
    #expect(clinux_module_find(address, &module) && isIn(address, module) && module.eh_frame_hdr != 0)
    #expect(isIn(module.eh_frame_hdr, module))
    let mapped = try #require(mapping(of: address))
    #expect(module.start == mapped.start)
    #expect(!clinux_module_find(8, &module))
    try withPages(1) { start in #expect(!clinux_module_find(start, &module)) }

    var start: UInt64 = 0
    var path = [CChar](repeating: 1, count: 4096)
    #expect(clinux_module_file(address, &start, &path, path.count))
    let name = String(decoding: path.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    #expect(name.split(separator: "/").last == mapped.path.split(separator: "/").last && start == mapped.start)
    // The buffer must hold the path and its final NUL.
    for (length, fits) in [(name.utf8.count + 1, true), (name.utf8.count, false), (1, false), (0, false)] {
      #expect(clinux_module_file(address, &start, &path, length) == fits, "\(length)")
    }
    #expect(!clinux_module_file(8, &start, &path, path.count))
    let executable = try #require(clinux_module_executable())
    #expect(
      String(cString: executable).split(separator: "/").last == CommandLine.arguments[0].split(separator: "/").last
    )
  }
}

/// The number of successful short and long reads with file size limits of 100 bytes and of 0.
private func pagesReadWithLimits() -> Int32 {
  guard clinux_memory_start() == CLINUX_MEMORY_BY_WINDOW else { return 100 }
  var read: Int32 = 0
  for limit: rlim_t in [100, 0] {
    var little = rlimit(rlim_cur: limit, rlim_max: rlim_t.max)
    setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &little)
    for length in [8, 3 * page] {
      let known = [UInt8](repeating: 7, count: length)
      var found = [UInt8](repeating: 0, count: length)
      let isRead = known.withUnsafeBufferPointer {
        clinux_memory_read(UInt64(UInt(bitPattern: $0.baseAddress)), &found, length)
      }
      read += isRead && found == known ? 1 : 0
    }
  }
  return read
}
