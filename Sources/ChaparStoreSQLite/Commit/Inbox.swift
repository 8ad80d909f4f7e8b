import Dispatch
import ChaparCore
import Synchronization

/// The commands on their way to the commit loop, in order, bounded by the rows and the bytes of new work.
///
/// ``SQLiteStore`` and ``StorePort`` add to it, from any thread, and never wait; ``CommitLoop`` drains it. It owns the
/// idempotency keys that are in use. Only new work is ever refused for its size: commands that end work are always
/// accepted.
final class Inbox: Sendable {
    /// An idempotency key, with its caller.
    struct KeyName: Hashable {
        var caller: String
        var key: String
    }

    private struct Contents {
        var commands: [StoreCommand] = []
        var size = CommandSize()
        var keys: Set<KeyName> = []
        var isWriterAsleep = false
        var isClosed = false
        var hasEnded = false
    }

    /// The result of handing in new work.
    enum Admission {
        case admitted
        case full
        case keyInUse
        case closed
    }

    private let maximum: CommandSize
    private let contents = Mutex(Contents())
    private let signal: any WriterSignal
    /// Makes the writer sleep for this number of microseconds while more arrives.
    let pause: @Sendable (UInt32) -> Void

    init(maximumRows: Int, maximumBytes: Int = .max, threads: any StoreThreads = MachineThreads()) {
        maximum = CommandSize(rows: maximumRows, bytes: maximumBytes)
        signal = threads.makeSignal()
        pause = threads.pause
    }

    /// Adds a command that is never refused for its size; returns false when the store is closed.
    func add(_ command: StoreCommand) -> Bool {
        add(command, isInternal: false)
    }

    private func add(_ command: StoreCommand, isInternal: Bool) -> Bool {
        let (isAdmitted, wakes) = contents.withLock { contents in
            guard !(isInternal ? contents.hasEnded : contents.isClosed) else { return (false, false) }
            contents.size += command.size
            return (true, Self.append(command, to: &contents))
        }
        if wakes { signal.send() }
        return isAdmitted
    }

    /// Adds new work.
    ///
    /// The idempotency key is in use from now until ``release(_:)``.
    func admit(_ command: StoreCommand, key: KeyName?) -> Admission {
        let (admission, wakes) = contents.withLock { contents -> (Admission, Bool) in
            if contents.isClosed { return (.closed, false) }
            if let key, contents.keys.contains(key) { return (.keyInUse, false) }
            if contents.size.rows >= maximum.rows || contents.size.bytes >= maximum.bytes { return (.full, false) }
            if let key { contents.keys.insert(key) }
            contents.size += command.size
            return (.admitted, Self.append(command, to: &contents))
        }
        if wakes { signal.send() }
        return admission
    }

    /// Ends the use of an idempotency key.
    func release(_ key: KeyName) { contents.withLock { _ = $0.keys.remove(key) } }

    /// Wakes the writer without a caller's command.
    func poke() { _ = add(.look, isInternal: true) }

    /// Refuses commands from now on; those in the inbox are still carried out.
    func close() {
        let wakes = contents.withLock { contents in
            contents.isClosed = true
            defer { contents.isWriterAsleep = false }
            return contents.isWriterAsleep
        }
        if wakes { signal.send() }
    }

    /// Takes all commands that wait.
    ///
    /// Sleeps until there is something or the deadline comes, unless `isHurried`; nil when the inbox is closed and
    /// empty and nothing that was taken earlier `remains` to be done.
    func drain(isHurried: Bool, remains: Bool = false, until deadline: DispatchTime? = nil) -> [StoreCommand]? {
        while true {
            let (commands, isOver) = contents.withLock { contents -> ([StoreCommand], Bool) in
                var taken: [StoreCommand] = []
                swap(&taken, &contents.commands)
                contents.isWriterAsleep = taken.isEmpty && !isHurried && !contents.isClosed
                let isOver = taken.isEmpty && contents.isClosed && !remains
                if isOver { contents.hasEnded = true }
                return (taken, isOver)
            }
            if !commands.isEmpty { return commands }
            if isOver { return nil }
            if isHurried { return [] }
            if !signal.wait(until: deadline) { return [] }
        }
    }

    /// The number of commands that the writer has not taken yet.
    var count: Int { contents.withLock { $0.commands.count } }

    /// Whether commands are refused.
    var isClosed: Bool { contents.withLock { $0.isClosed } }

    /// Frees capacity after commands were carried out or refused.
    func finish(_ size: CommandSize) { contents.withLock { $0.size -= size } }

    /// Reserves capacity again for commands that go on.
    func reserve(_ size: CommandSize) { contents.withLock { $0.size += size } }

    /// Returns whether the writer has to be woken.
    private static func append(_ command: StoreCommand, to contents: inout Contents) -> Bool {
        contents.commands.append(command)
        defer { contents.isWriterAsleep = false }
        return contents.isWriterAsleep
    }
}
