import CCulpritLinux
import CulpritStallRecord
import Glibc

enum ProcessFiles {
  /// Returns other paths to the file of `module` while the process `id` runs: its executable, and its mappings
  /// (proc(5): `map_files`, which needs privileges). They lead to the mapped file even if it was deleted or replaced.
  static func paths(of module: Module, in id: Int32) -> [String] {
    let mappings = module.mappings.prefix(4)
      .map {
        "/proc/\(id)/map_files/\(String($0.start.value, radix: 16))-\(String($0.end.value, radix: 16))"
      }
    let present = presentPath(of: module, in: id).flatMap { $0.hasSuffix(" (deleted)") ? nil : $0 }
    return ["/proc/\(id)/exe"] + mappings + [present].compactMap { $0 }
  }

  static func presentPath(of module: Module, in id: Int32) -> String? {
    guard let start = module.mappings.first?.start.value, let line = mapping(at: start, in: "\(id)"),
      let slash = line.firstIndex(of: "/")
    else { return nil }
    return String(line[slash...])
  }

  /// Returns the device and inode of the file mapped by this process at `start`, as in ``Module/identity``.
  static func ownIdentity(at start: UInt64) -> String? {
    guard let fields = mapping(at: start, in: "thread-self")?.split(separator: " "), fields.count >= 5 else {
      return nil
    }
    return "\(fields[3]) \(fields[4])"
  }

  private static func mapping(at start: UInt64, in process: String) -> String? {
    let beginning = Array((String(start, radix: 16) + "-").utf8)
    return readWhole("/proc/\(process)/maps", limit: 64 << 20)?.split(separator: UInt8(ascii: "\n"))
      .first { $0.starts(with: beginning) }.map { String(decoding: $0, as: UTF8.self) }
  }

  static func isOwnExecutable(_ module: Module) -> Bool {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/thread-self/exe", &path, path.count)
    return count > 0 && path[..<count].elementsEqual(module.path.utf8.map(CChar.init(bitPattern:)))
  }

  /// Returns the vDSO of this process, which is identical in all processes of one kernel.
  static func ownVDSO() -> ElfImage? {
    guard let maps = readWhole("/proc/thread-self/maps", limit: 64 << 20) else { return nil }
    for line in maps.split(separator: UInt8(ascii: "\n")) {
      let text = String(decoding: line, as: UTF8.self)
      guard text.hasSuffix("[vdso]") else { continue }
      let range = text.prefix { $0 != " " }.split(separator: "-").compactMap { UInt($0, radix: 16) }
      guard range.count == 2, range[0] < range[1], let start = UnsafeRawPointer(bitPattern: range[0]) else {
        return nil
      }
      let bytes = Bytes(base: start, count: Int(range[1] - range[0]))
      // SAFETY: the kernel keeps these pages mapped and readable for the life of the process.
      return try? ElfImage(bytes: bytes, path: "[vdso]", keeper: Forever())
    }
    return nil
  }

  private final class Forever {}

  static func readWhole(_ path: String, limit: Int) -> [UInt8]? {
    var file = clinux_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW))
    defer { clinux_descriptor_close(&file) }
    var information = stat()
    guard fstat(file.number, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return nil }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while bytes.count < limit, clinux_descriptor_is_ours(&file) {
      let count = read(file.number, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count == 0 ? bytes : nil }
      bytes += chunk[..<count]
    }
    return nil
  }
}
