import CCulpritLinux
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import Glibc

/// The version that `--version` prints.
let toolVersion = "0.1.0"

/// What the command prints.
let output = CommandOutput(command: "culprit") { Progress.shared.makeRoom($0, $1) }

/// A file that could not be read, or written.
struct InputError: Error, CustomStringConvertible {
  var description: String

  /// An error that `description` tells of.
  init(description: String) { self.description = description }

  /// What is wrong with the file at `path`, which is told even where that is empty.
  init(_ path: String, _ reason: String) { description = "\(path.isEmpty ? "\"\"" : path): \(reason)" }

  /// The error number `error` of the file at `path`.
  init(_ path: String, _ error: Int32) { self.init(path, String(cString: strerror(error))) }
}

/// A descriptor that was open when the command was started, if `path` is a name of one: "-", or what a shell writes for
/// `<(ssh host cat file)`.
private func inherited(_ path: String) -> Int32? {
  if path == "-" || path == "/dev/stdin" { return STDIN_FILENO }
  for prefix in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(prefix) {
    return Int32(path.dropFirst(prefix.count))
  }
  return nil
}

/// Whether `path` is a name of what was open when the command was started.
func isInherited(_ path: String) -> Bool { inherited(path) != nil }

/// Opens the file at `path` to be read. One that was found in a directory must not be a link: others may have put it there.
/// Nothing but a regular file is opened: with root's privileges the opening of a device alone may do harm.
private func openInput(_ path: String, isFound: Bool) throws(InputError) -> Int32 {
  var information = stat()
  if isFound, lstat(path, &information) == 0, information.st_mode & S_IFMT == S_IFLNK {
    throw InputError(path, "it is a link")
  }
  let descriptor = clinux_open_regular(path)
  guard descriptor >= 0 else {
    let reason = descriptor == -EINVAL ? "it is no regular file" : String(cString: strerror(-descriptor))
    throw InputError(path, reason)
  }
  // What is there now must be what was looked at above.
  var opened = stat()
  if isFound, fstat(descriptor, &opened) != 0 || opened.st_ino != information.st_ino {
    close(descriptor)
    throw InputError(path, "it has been replaced")
  }
  return descriptor
}

/// The `.stall` file at `path`, or what is open already when that names it: so much of it as `extent` says.
private func readStallFile(_ path: String, isFound: Bool, _ extent: StallFile.Extent) throws -> StallFile {
  let known = isFound ? nil : inherited(path)
  let descriptor: Int32
  if let known { descriptor = known } else { descriptor = try openInput(path, isFound: isFound) }
  defer { if known == nil { close(descriptor) } }
  let pieceBytes = 256 << 10
  var failure: Int32 = 0
  let file = Result { () throws(StallFileError) in
    try StallFile(extent) {
      while true {
        var result = 0
        let piece = [UInt8](unsafeUninitializedCapacity: pieceBytes) { buffer, count in
          result = read(descriptor, buffer.baseAddress, pieceBytes)
          count = max(0, result)
        }
        if result < 0, errno == EINTR { continue }
        if result < 0 { failure = errno }
        Progress.shared.didRead(piece.count)
        return piece
      }
    }
  }
  // What comes before a failure is no file that was cut off.
  guard failure == 0 else { throw InputError(path, failure) }
  return try file.get()
}

/// What has become of a file that was read.
struct FileResult<Output> {
  /// What was made of it; `nil` where it could not be read.
  var output: Output?
  /// What was wrong with it, in sentences.
  var problems: [String] = []

  /// Writes what was wrong to standard error.
  func tellProblems() {
    for problem in problems { CulpritCommand.output.error(problem) }
  }
}

/// Reads the `.stall` file at `path`, so much of it as `extent` says, and gives it to `body` with its name. One that `isFound` was found in
/// a directory.
func readStallFile<Output>(
  _ path: String,
  isFound: Bool,
  _ extent: StallFile.Extent,
  _ body: (String, StallFile) -> Output
) -> FileResult<Output> {
  let name = path == "-" ? "standard input" : path
  defer { Progress.shared.didFinishFile() }
  do {
    let file = try readStallFile(path, isFound: isFound, extent)
    return FileResult(output: body(name, file), problems: file.problems.map { "\(name): \($0)" })
  } catch let error as StallFileError {
    return FileResult(problems: ["\(name): \(error)"])
  } catch {
    return FileResult(problems: ["\(error)"])
  }
}

/// Reads each of `paths` (standard input when there are none) as a `.stall` file and gives it to `body`, so much of it as `extent`
/// says. Problems go to standard error. Returns whether there was none. Those that are in `found` were found in a directory.
func forEachStallFile(
  _ paths: [String],
  found: Set<String> = [],
  _ extent: StallFile.Extent = StallFile.Extent(),
  _ body: (String, StallFile) -> Void
) -> Bool {
  var allGood = true
  Progress.shared.begin(reading: paths)
  for path in paths.isEmpty ? ["-"] : paths {
    let result = readStallFile(path, isFound: found.contains(path), extent, body)
    result.tellProblems()
    allGood = allGood && result.problems.isEmpty
  }
  return allGood
}

/// Writes `bytes` to the file at `path`, or to standard output when that is "-". The file is there in full or as it was.
func write(_ bytes: [UInt8], to path: String) throws(InputError) {
  let file = try OutputFile(path)
  try file.write(bytes)
  try file.commit()
}
