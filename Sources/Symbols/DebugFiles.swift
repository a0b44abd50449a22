import CCulpritLinux
import CCulpritZlib
import CulpritStallRecord
import Glibc

package struct DebugSearch: Sendable {
  package var directories: [String]
  package var servers: DebugInfoServers?

  package init(directories: [String] = [], servers: DebugInfoServers? = nil) {
    self.directories = directories + ["/usr/lib/debug"]
    self.servers = servers
  }

  /// Returns the path of a file with `buildID` in ``directories`` or on ``servers``: preferably the program's own file,
  /// otherwise its debug information. If the former path of the program's file is known as `path`, files with its
  /// name are candidates.
  package func file(withBuildID buildID: [UInt8], formerlyAt path: String? = nil) -> String? {
    guard buildID.count > 1 else { return nil }
    let digits = hexadecimal(buildID)
    for directory in directories {
      var candidates = ["\(directory)/.build-id/\(digits.prefix(2))/\(digits.dropFirst(2))"]
      if let path { candidates += Self.paths(in: directory, of: path) }
      for candidate in candidates.flatMap({ [$0, $0 + ".debug"] }) {
        if let image = try? ElfImage(path: candidate), image.buildID == buildID { return candidate }
      }
    }
    return servers?.path(of: buildID)
  }

  static func paths(in directory: String, of path: String) -> [String] {
    let name = path.split(separator: "/").last.map(String.init) ?? path
    return ["\(directory)/\(name)", directory + path]
  }
}

/// Finds files with debug information. Rejects files of other builds.
struct DebugFiles {
  let search: DebugSearch

  enum Finding {
    case found(ElfImage)
    case refused(String)
    case none
  }

  func separate(for image: ElfImage) -> Finding {
    var refusal: String?
    for path in pathsByBuildID(image.buildID) + pathsByLink(image) + pathsByName(image) {
      switch open(path, for: image) {
      case .found(let found): return .found(found)
      case .refused(let why): refusal = refusal ?? why
      case .none: continue
      }
    }
    if let fetched = search.servers?.path(of: image.buildID), case .found(let found) = open(fetched, for: image) {
      return .found(found)
    }
    return refusal.map { .refused($0) } ?? .none
  }

  func alternate(for image: ElfImage) -> Finding {
    guard let content = try? image.content(of: ".gnu_debugaltlink"), let name = content.bytes.text(at: 0) else {
      return .none
    }
    let expected = content.bytes.from(name.count + 1).array
    let path = name.string
    // A relative path starts at the file's real directory, with symbolic links resolved.
    let near = path.hasPrefix("/") ? path : Self.directory(of: realPath(image.path)) + path
    var refusal: String?
    for path in [near] + pathsByBuildID(expected) {
      guard access(path, R_OK) == 0 else { continue }
      do {
        let found = try ElfImage(path: path)
        if found.buildID == expected { return .found(found) }
        refusal = "\(path) is of another build: \(Self.difference(expected, found.buildID))"
      } catch { refusal = error.text }
    }
    return .refused(refusal ?? "\(near), which debug information refers to, is not there")
  }

  private func pathsByBuildID(_ buildID: [UInt8]) -> [String] {
    guard buildID.count > 1 else { return [] }
    let digits = hexadecimal(buildID)
    let name = "/.build-id/\(digits.prefix(2))/\(digits.dropFirst(2)).debug"
    return search.directories.map { $0 + name }
  }

  /// Returns paths of files with the program's name. A build ID must prove that such a file is the unstripped original.
  private func pathsByName(_ image: ElfImage) -> [String] {
    guard image.path.hasPrefix("/"), !image.buildID.isEmpty else { return [] }
    return search.directories.flatMap { DebugSearch.paths(in: $0, of: image.path) }
  }

  private func pathsByLink(_ image: ElfImage) -> [String] {
    guard let link = Self.link(in: image), !link.name.isEmpty else { return [] }
    let directory = Self.directory(of: realPath(image.path))
    return [directory + link.name, directory + ".debug/" + link.name]
      + search.directories.map { $0 + directory + link.name }
  }

  private func open(_ path: String, for image: ElfImage) -> Finding {
    guard access(path, R_OK) == 0, realPath(path) != realPath(image.path) else { return .none }
    do {
      let found = try ElfImage(path: path)
      if !image.buildID.isEmpty || !found.buildID.isEmpty {
        guard found.buildID == image.buildID else {
          return .refused("\(path) is of another build: \(Self.difference(image.buildID, found.buildID))")
        }
      } else if let link = Self.link(in: image) {
        let sum = Self.checksum(found.bytes)
        guard sum == link.checksum else {
          return .refused("\(path) is another file: its checksum is \(sum), not \(link.checksum)")
        }
      }
      return .found(found)
    } catch { return .refused(error.text) }
  }

  private static func difference(_ expected: [UInt8], _ found: [UInt8]) -> String {
    func text(_ buildID: [UInt8]) -> String { buildID.isEmpty ? "none" : hexadecimal(buildID) }
    return "its build-id is \(text(found)), not \(text(expected))"
  }

  private static func link(in image: ElfImage) -> (name: String, checksum: UInt32)? {
    guard let content = try? image.content(of: ".gnu_debuglink"), let name = content.bytes.text(at: 0) else {
      return nil
    }
    var cursor = content.bytes.cursor(at: (name.count + 4) & ~3)
    let checksum = cursor.u32()
    return cursor.hasFailed ? nil : (name.string, checksum)
  }

  private static func checksum(_ bytes: Bytes) -> UInt32 {
    var sum: UInt = 0
    var position = 0
    while position < bytes.count {
      clinux_fork_yield()
      let count = min(bytes.count - position, 1 << 20)
      // SAFETY: `count` bytes are available from `position` on.
      sum = crc32(sum, (bytes.base + position).assumingMemoryBound(to: UInt8.self), UInt32(count))
      position += count
    }
    return UInt32(truncatingIfNeeded: sum)
  }

  static func directory(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "" }
    return String(path[...slash])
  }
}

/// Returns the target of links; `path` itself if it does not exist.
package func realPath(_ path: String) -> String {
  guard let real = realpath(path, nil) else { return path }
  // SAFETY: realpath returns a NUL-terminated string from malloc.
  defer { free(real) }
  return String(cString: real)
}
