import CCulpritLinux
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import Glibc

let toolVersion = "0.1.0"

let output = CommandOutput(command: "culprit") { Progress.shared.makeRoom($0, $1) }

struct InputError: Error, CustomStringConvertible {
  var description: String

  init(description: String) { self.description = description }

  /// Creates an error for the file at `path`. An empty path is shown as `""`.
  init(_ path: String, _ reason: String) { description = "\(path.isEmpty ? "\"\"" : path): \(reason)" }

  init(_ path: String, _ error: Int32) { self.init(path, String(cString: strerror(error))) }
}

/// Returns the descriptor for "-", or for a path that a shell creates for `<(ssh host cat file)`.
private func inherited(_ path: String) -> Int32? {
  if path == "-" || path == "/dev/stdin" { return STDIN_FILENO }
  for prefix in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(prefix) {
    return Int32(path.dropFirst(prefix.count))
  }
  return nil
}

func isInherited(_ path: String) -> Bool { inherited(path) != nil }

/// Opens a regular file for reading, because opening a device can have side effects. Rejects a link that was found in a
/// directory, because another user might have created it.
private func openInput(_ path: String, isFound: Bool) throws(InputError) -> Int32 {
  var information = stat()
  if isFound, lstat(path, &information) == 0, information.st_mode & S_IFMT == S_IFLNK {
    throw InputError(path, "it is a symbolic link")
  }
  let descriptor = clinux_open_regular(path)
  guard descriptor >= 0 else {
    let reason = descriptor == -EINVAL ? "not a regular file" : String(cString: strerror(-descriptor))
    throw InputError(path, reason)
  }
  // The file might have been replaced since the check.
  var opened = stat()
  if isFound, fstat(descriptor, &opened) != 0 || opened.st_ino != information.st_ino {
    close(descriptor)
    throw InputError(path, "it has been replaced")
  }
  return descriptor
}

/// Reads a `.stall` file or an inherited descriptor.
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
  // After a read error, the file must not be reported as truncated.
  guard failure == 0 else { throw InputError(path, failure) }
  return try file.get()
}

struct FileResult<Output> {
  var output: Output?
  var problems: [String] = []

  func noteProblems() {
    for problem in problems { CulpritCommand.output.error(problem) }
  }
}

/// Reads a `.stall` file and passes it to `body` with its name. `isFound` is whether the file was found in a directory.
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

/// Reads each of `paths`, or standard input without paths. Prints problems to standard error. Returns `true` without
/// problems.
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
    result.noteProblems()
    allGood = allGood && result.problems.isEmpty
  }
  return allGood
}

/// Replaces the file at `path` atomically. Writes to standard output for "-".
func write(_ bytes: [UInt8], to path: String) throws(InputError) {
  let file = try OutputFile(path)
  try file.write(bytes)
  try file.commit()
}
