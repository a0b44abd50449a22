import Glibc

/// Other users that can replace saved files.
///
/// The owner of a directory and users with write permission can replace its entries, so each directory and symbolic
/// link on the path counts.
enum DirectoryRisks {
  /// The kernel's limit of symbolic links (path_resolution(7)).
  private static let linksMax = 40

  static func found(_ directory: String) -> [String] {
    var found: [String] = []
    func note(_ sentence: String) { if !found.contains(sentence) { found.append(sentence) } }
    var left = components(directory)
    if !directory.hasPrefix("/") { left = components(workingDirectory) + left }
    // The path so far; "" is the root.
    var place = ""
    var links = 0
    inspect(at: "/", isLast: left.isEmpty, note)
    while !left.isEmpty {
      let name = left.removeFirst()
      if name == ".." {
        place = String(place.prefix(upTo: place.lastIndex(of: "/") ?? place.startIndex))
        continue
      }
      let path = "\(place)/\(name)"
      var information = stat()
      guard lstat(path, &information) == 0 else { return found }
      guard information.st_mode & S_IFMT == S_IFLNK else {
        place = path
        inspect(at: path, isLast: left.isEmpty, note)
        continue
      }
      if isForeign(information.st_uid) {
        note("\(path) is a symbolic link of user \(information.st_uid), which can redirect saved stalls")
      }
      links += 1
      guard links <= linksMax, let target = ProcessMap.target(ofLink: path) else { return found }
      if target.hasPrefix("/") { place = "" }
      left = components(target) + left
    }
    return found
  }

  private static func inspect(at path: String, isLast: Bool, _ note: (String) -> Void) {
    var place = stat()
    guard lstat(path, &place) == 0 else { return }
    let what =
      isLast ? "remove or replace the files in \(path)" : "create a directory in \(path)"
    if isForeign(place.st_uid) { note("its owner, user \(place.st_uid), can \(what)") }
    // With the sticky bit, users can remove or rename only their own files.
    guard place.st_mode & S_ISVTX == 0 else { return }
    let mode = "its mode is " + String(place.st_mode & 0o7777, radix: 8)
    if place.st_mode & S_IWOTH != 0 {
      note("all users can \(what): \(mode)")
    } else if place.st_mode & S_IWGRP != 0, place.st_gid != 0 {
      note("group \(place.st_gid) can \(what): \(mode)")
    }
  }

  /// Excludes root, which has all permissions.
  private static func isForeign(_ id: uid_t) -> Bool { id != 0 && id != geteuid() }

  private static func components(_ path: String) -> [Substring] { path.split(separator: "/").filter { $0 != "." } }

  private static var workingDirectory: String {
    guard let path = getcwd(nil, 0) else { return "/" }
    // SAFETY: getcwd returns a NUL-terminated string from malloc.
    defer { free(path) }
    return String(cString: path)
  }
}
