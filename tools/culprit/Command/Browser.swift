import Glibc

enum Browser {
  /// The first available command of the colon-separated BROWSER, or else xdg-open.
  static var command: String? {
    let wanted = Terminal.environment("BROWSER") ?? ""
    let candidates = wanted.split(separator: ":").map(String.init) + ["xdg-open"]
    return candidates.first { Pager.exists($0) }
  }

  /// Opens the file. The path replaces "%s" in `command`, or is appended.
  ///
  /// - Throws: ``InputError`` if the command cannot be started or fails.
  static func open(_ path: String, _ command: String) throws(InputError) {
    // The shell does not interpret the path, which is an argument of the script.
    let script =
      command.contains("%s") ? command.replacing("%s", with: "\"$1\"", maxReplacements: 1) : "\(command) \"$1\""
    let arguments = ["sh", "-c", script, "sh", path]
    var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { words.forEach { free($0) } }
    var child: pid_t = 0
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The child must receive the signals blocked by this program.
    var mask = Interruption.maskOfChildren
    posix_spawnattr_setsigmask(&attributes, &mask)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    let error = posix_spawn(&child, "/bin/sh", nil, &attributes, &words, environ)
    guard error == 0 else { throw InputError(description: "\(command): \(String(cString: strerror(error)))") }
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    guard status == 0 else {
      throw InputError(description: "the browser \"\(command)\" failed; the page is \(path)")
    }
  }
}
