import Glibc

/// What others can do to what is saved in a directory.
enum DirectoryRisks {
  /// A sentence for each risk of `directory`.
  static func found(_ directory: String) -> [String] {
    var found: [String] = []
    var path = directory
    // With a slash at its end lstat follows the link.
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    var link = stat()
    if lstat(path, &link) == 0, link.st_mode & S_IFMT == S_IFLNK, link.st_uid != 0, link.st_uid != geteuid() {
      found.append("\(path) is a link of user \(link.st_uid), who can have stalls saved anywhere")
    }
    var place = stat()
    if stat(path, &place) == 0, place.st_mode & S_IWOTH != 0, place.st_mode & S_ISVTX == 0 {
      found.append(
        "everybody can remove what is saved in \(path), or put something else there: its mode is "
          + String(place.st_mode & 0o7777, radix: 8)
      )
    }
    return found
  }
}
