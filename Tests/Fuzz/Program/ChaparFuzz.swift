import Dispatch
import FuzzTargets
import Glibc
import Synchronization

/// The fuzz binary: `ChaparFuzz --target=NAME [options of libFuzzer] [folders or files]`.
///
/// libFuzzer draws inputs by what they reach in the code, and hands each to ``read(_:_:)``. A trap, a finding of the
/// address sanitizer or a thrown error ends the process; the input is kept in a file then.
@main
enum ChaparFuzz {
    private static let reader = Mutex<FuzzTarget.Read?>(nil)

    static func main() {
        let option = "--target="  // libFuzzer leaves what begins with -- alone, also for the processes that it starts.
        let name = CommandLine.arguments.first { $0.hasPrefix(option) }?.dropFirst(option.count)
        guard let target = FuzzTarget.all.first(where: { $0.name == name ?? "" }) else {
            print("usage: ChaparFuzz --target=NAME [options of libFuzzer] [folders]; there are")
            for target in FuzzTarget.all { print(target.name) }
            exit(2)
        }
        let ready = DispatchSemaphore(value: 0)
        // Unstructured: what the target needs lasts as long as the process, which libFuzzer ends.
        Task.detached {
            do {
                try await target.use { read in
                    reader.withLock { $0 = read }
                    ready.signal()
                    while true { try await Task.sleep(for: .seconds(3600)) }  // Until the process ends.
                }
            } catch {
                fatalError("\(target.name) cannot be made ready: \(error)")
            }
        }
        ready.wait()
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        exit(runLibFuzzer(&count, &arguments) { ChaparFuzz.read($0, $1) })
    }

    /// Reads one input; returns when that is done.
    private static func read(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
        guard let read = reader.withLock({ $0 }) else { return -1 }
        let bytes = Array(UnsafeBufferPointer(start: start, count: count))
        let thread = CallingThread()
        // Unstructured: libFuzzer knows no tasks. It waits for the end.
        Task.detached(executorPreference: thread) {
            do { try await read(bytes) } catch { fatalError("\(error)") }
            thread.end()
        }
        thread.run()
        return 0
    }
}

/// Runs a task on the thread that waits for it: to hand each input to another thread and back takes longer than to read
/// it.
private final class CallingThread: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])
    private let isOver = Mutex(false)
    private let signal = DispatchSemaphore(value: 0)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        signal.signal()
    }

    /// Runs what is enqueued, up to ``end()``.
    func run() {
        while !isOver.withLock({ $0 }) {
            signal.wait()
            let next = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            next?.runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    func end() {
        isOver.withLock { $0 = true }
        signal.signal()
    }
}

/// libFuzzer's way in for programs with a `main` of their own.
@_silgen_name("LLVMFuzzerRunDriver")
private func runLibFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ read: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt
