import ChildProcesses
import Glibc
import Synchronization

/// A small library that is loaded under a new name each time.
final class Plugins: Sendable {
  typealias Function = @convention(c) (UInt64) -> Void

  /// One that is loaded.
  struct Loaded {
    fileprivate var handle: UnsafeMutableRawPointer
    fileprivate var path: String
    var function: Function
  }

  private static let source = """
    #include <time.h>
    static volatile unsigned long sink;
    static unsigned long long now(void) {
      struct timespec time;
      clock_gettime(CLOCK_MONOTONIC, &time);
      return time.tv_sec * 1000000000ull + time.tv_nsec;
    }
    __attribute__((noinline)) void plugin_computes(unsigned long long ns) {
      unsigned long long end = now() + ns;
      while (now() < end)
        for (int i = 0; i < 20000; i++)
          sink = sink * 3 + 1;
      sink++;
    }
    """

  private let directory: String
  private let bytes: [UInt8]
  private let count = Atomic<Int>(0)

  /// Compiles it in `directory`; `nil` without a compiler. What is there already is used.
  init?(in directory: String) {
    self.directory = directory
    let library = directory + "/plugin.so"
    if access(library, R_OK) != 0 {
      guard let file = fopen(directory + "/plugin.c", "we") else { return nil }
      fputs(Self.source, file)
      fclose(file)
      for compiler in ["clang", "cc"] {
        let words = [compiler, "-O1", "-g", "-shared", "-fPIC", "-o", library, directory + "/plugin.c"]
        guard let process = try? Spawn.process("/usr/bin/env", ["env"] + words) else { continue }
        if Spawn.end(process) == 0 { break }
      }
    }
    let descriptor = open(library, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    bytes = Spawn.readAll(descriptor)
    close(descriptor)
  }

  /// Loads it under a name of its own; `nil` where something is refused, such as a descriptor.
  func load(_ name: String) -> Loaded? {
    let number = count.wrappingAdd(1, ordering: .relaxed).newValue
    let path = "\(directory)/\(name)-\(getpid())-\(number).so"
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o700)
    guard file >= 0 else { return nil }
    let written = write(file, bytes, bytes.count)
    close(file)
    guard written == bytes.count, let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
      unlink(path)
      return nil
    }
    guard let symbol = dlsym(handle, "plugin_computes") else { return nil }
    // SAFETY: the symbol is that of the C function above.
    return Loaded(handle: handle, path: path, function: unsafeBitCast(symbol, to: Function.self))
  }

  func unload(_ loaded: Loaded, removes: Bool = true) {
    dlclose(loaded.handle)
    if removes { unlink(loaded.path) }
  }
}
