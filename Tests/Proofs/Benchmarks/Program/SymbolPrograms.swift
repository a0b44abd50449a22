import CulpritSymbols
import Glibc
import Judges

/// Programs and libraries of several languages and sizes for comparing symbolizers, compiled here or found locally.
struct SymbolPrograms {
  /// The directory for compiled programs.
  let directory: String
  /// The directory of the programs of the Swift toolchain.
  let toolchain: String

  /// Compiles ``symbolsProgram`` with `compiler`. Returns the path.
  func cxx(_ compiler: String, _ name: String) throws -> String { try compiled(compiler, name, symbolsProgram, "cpp") }

  /// The available programs: C, C++ and Rust compiled here, libraries and compilers of Swift and Rust, programs in Go.
  func others() throws -> [(String, String)] {
    var files = [
      ("c", try compiled("gcc -O2 -g", "c", Self.smallProgram, "c")),
      ("c_dwarf4", try compiled("gcc -O2 -gdwarf-4", "c_dwarf4", Self.smallProgram, "c")),
      ("gcc_debug", try cxx("g++ -O0 -g", "gcc_debug")),
      ("gcc_compressed", try cxx("g++ -O2 -g -gz=zlib", "gcc_compressed")),
      ("gcc_no_dwarf", try cxx("g++ -O2", "gcc_no_dwarf")),
    ]
    if isInstalled("rustc") {
      files.append(("rust", try compiled("rustc -O -g", "rust", Self.rustProgram, "rs")))
      files.append(("rust_debug", try compiled("rustc -g", "rust_debug", Self.rustProgram, "rs")))
      let list = "ls \"$(rustc --print sysroot)\"/lib/librustc_driver-*.so"
      files += try PeerRun(["sh", "-c", list], mayFail: true).output.split(separator: "\n").prefix(1).map {
        ("rustc", String($0))
      }
    }
    let libraries = toolchain + "/../lib/swift/linux/"
    files += ["libFoundation.so", "libswiftCore.so", "lib_FoundationICU.so"].map { ($0, libraries + $0) }
    files += ["lld", "clangd", "swift-frontend"].map { ($0, toolchain + "/" + $0) }
    files += try goPrograms()
    return files.filter { access($0.1, R_OK) == 0 }
  }

  /// At most two Go programs found on PATH.
  private func goPrograms() throws -> [(String, String)] {
    let script = """
      IFS=:
      for directory in $PATH; do
        for file in "$directory"/*; do
          [ -f "$file" ] && readelf -SW "$file" 2>/dev/null | grep -q go.buildid && readlink -f "$file"
        done
      done | awk '!seen[$0]++' | head -2
      """
    return try PeerRun(["sh", "-c", script], mayFail: true).output.split(separator: "\n").enumerated()
      .map { ("go\($0 + 1)", String($1)) }
  }

  private func isInstalled(_ program: String) -> Bool {
    (try? PeerRun(["sh", "-c", "command -v \(program)"])) != nil
  }

  private func compiled(_ compiler: String, _ name: String, _ source: String, _ ending: String) throws -> String {
    let (file, program) = ("\(directory)/\(name).\(ending)", "\(directory)/\(name)")
    guard let stream = fopen(file, "w") else { throw ProofError("cannot write \(file)") }
    fputs(source, stream)
    fclose(stream)
    _ = try PeerRun(["sh", "-c", "cd \(directory) && \(compiler) -o \(program) \(file)"])
    return program
  }

  private static let smallProgram = #"""
    #include <stdio.h>
    #include <stdlib.h>
    struct item { struct item *next; int price; };
    static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    static inline int total(struct item *item, int rate) {
      int sum = 0;
      for (; item; item = item->next) sum += item->price * rate;
      return sum;
    }
    int report(struct item *items) { return total(items, 3) + total(items, 5); }
    int main(int count, char **words) {
      int prices[100];
      for (int i = 0; i < 100; i++) prices[i] = i * 7919 % 101 + count;
      qsort(prices, 100, sizeof prices[0], compare);
      struct item item = {0, prices[3]};
      printf("%d %s\n", report(&item), words[0]);
    }
    """#

  private static let rustProgram = #"""
    use std::collections::HashMap;
    fn main() {
        let mut index: HashMap<String, Vec<u64>> = HashMap::new();
        for i in 0..1000u64 { index.entry(format!("k{}", i % 17)).or_default().push(i); }
        let mut sums: Vec<_> = index.iter().map(|(k, v)| (k.clone(), v.iter().sum::<u64>())).collect();
        sums.sort_by(|a, b| b.1.cmp(&a.1));
        let squares = std::thread::spawn(|| (0..100).map(|x| x * x).sum::<i32>());
        println!("{:?} {:?}", sums, squares.join());
    }
    """#
}
