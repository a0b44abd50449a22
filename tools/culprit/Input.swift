import CCulpritLinux
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import Glibc

/// The version that `--version` prints.
let toolVersion = "0.1.0"

/// What the command prints.
let output = CommandOutput(command: "culprit") { Progress.shared.makeRoom($0, $1) }

/// A file that could not be read.
struct InputError: Error, CustomStringConvertible {
  var description: String
}

/// The largest file that is read: a `.stall` file is some kilobytes, and a mistaken argument may be a disk image.
private let fileBytesMax = 256 << 20

/// A descriptor that was open when the command was started, if `path` is a name of one: "-", or what a shell writes for
/// `<(ssh host cat file)`.
private func inherited(_ path: String) -> Int32? {
  if path == "-" || path == "/dev/stdin" { return STDIN_FILENO }
  for prefix in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(prefix) {
    return Int32(path.dropFirst(prefix.count))
  }
  return nil
}

/// Opens the file at `path` to be read. One that was found in a directory must not be a link: others may have put it there.
/// Nothing but a regular file is opened: with root's privileges the opening of a device alone may do harm.
private func openInput(_ path: String, isFound: Bool) throws(InputError) -> Int32 {
  var information = stat()
  if isFound, lstat(path, &information) == 0, information.st_mode & S_IFMT == S_IFLNK {
    throw InputError(description: "\(path): it is a link")
  }
  let descriptor = clinux_open_regular(path)
  guard descriptor >= 0 else {
    let reason = descriptor == -EINVAL ? "it is no regular file" : String(cString: strerror(-descriptor))
    throw InputError(description: "\(path): \(reason)")
  }
  // What is there now must be what was looked at above.
  var opened = stat()
  if isFound, fstat(descriptor, &opened) != 0 || opened.st_ino != information.st_ino {
    close(descriptor)
    throw InputError(description: "\(path): it has been replaced")
  }
  return descriptor
}

/// The bytes of the file at `path`, or of what is open already when that names it.
func readInput(_ path: String, isFound: Bool) throws(InputError) -> [UInt8] {
  let known = isFound ? nil : inherited(path)
  let descriptor: Int32
  if let known { descriptor = known } else { descriptor = try openInput(path, isFound: isFound) }
  defer { if known == nil { close(descriptor) } }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 256 << 10)
  while true {
    let count = read(descriptor, &chunk, chunk.count)
    if count < 0, errno == EINTR { continue }
    if count < 0 { throw InputError(description: "\(path): \(String(cString: strerror(errno)))") }
    if count == 0 { return bytes }
    bytes += chunk[..<count]
    Progress.shared.didRead(count)
    // What is not a .stall file is not read to its end, which may be far away.
    if !StallFile.canBegin(with: bytes) { return bytes }
    guard bytes.count <= fileBytesMax else {
      throw InputError(description: "\(path): is larger than \(fileBytesMax) bytes, which no .stall file is")
    }
  }
}

/// Reads each of `paths` (standard input when there are none) as a `.stall` file and gives it to `body`. Problems go to
/// standard error. Returns whether there was none. Those that are in `found` were found in a directory. Of more than `samples` of a
/// stall some are left out.
func forEachStallFile(
  _ paths: [String],
  found: Set<String> = [],
  samples: Int = .max,
  _ body: (String, StallFile) -> Void
) -> Bool {
  var allGood = true
  Progress.shared.begin(reading: paths)
  for path in paths.isEmpty ? ["-"] : paths {
    let name = path == "-" ? "standard input" : path
    defer { Progress.shared.didFinishFile() }
    do {
      let file = try StallFile(bytes: readInput(path, isFound: found.contains(path)), samples: samples)
      body(name, file)
      for problem in file.problems {
        output.error("\(name): \(problem)")
        allGood = false
      }
    } catch let error as StallFileError {
      output.error("\(name): \(error)")
      allGood = false
    } catch {
      output.error("\(error)")
      allGood = false
    }
  }
  return allGood
}

/// Writes `bytes` to the file at `path`, or to standard output when that is "-". The file is there in full or as it was.
func write(_ bytes: [UInt8], to path: String) throws(InputError) {
  let file = try OutputFile(path)
  try file.write(bytes)
  try file.commit()
}
