import CCulpritLinux
import Glibc
import Testing

/// Recognition of files in /proc and /sys.
@Suite struct MachineFilesTests {
  @Test(arguments: ["/proc/self", "/proc/self/stat", "/proc/sys/kernel/ostype", "/sys/kernel"])
  func recognizesKernelFiles(path: String) { #expect(clinux_process_is_kernels(path)) }

  /// Rejects missing files, files on other file systems, and paths through other file systems.
  @Test(arguments: [
    "/proc/none", "/dev/null", "/proc/self/root/etc", "/etc/passwd", "",
    "/proc/self/" + String(repeating: "task/../", count: 20) + "stat",
  ])
  func rejectsOtherFiles(path: String) { #expect(!clinux_process_is_kernels(path)) }

  @Test func preservesErrno() {
    errno = ERANGE
    _ = clinux_process_is_kernels("/proc/none")
    #expect(errno == ERANGE)
  }

  @Test func reportsNumberOfCPUs() {
    #expect(clinux_process_cpus() > 0 && clinux_process_cpus() == clinux_process_cpus())
  }
}
