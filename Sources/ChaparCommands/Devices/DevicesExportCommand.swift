import ArgumentParser
import Foundation
import ChaparCore

/// `chapar devices export`: writes devices to a file that `devices import` reads, a page at a time.
struct DevicesExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write devices as NDJSON, a backup with every field, or as CSV, for people.",
        discussion: """
            NDJSON keeps everything, also the tombstones of dead tokens and the times of registration. CSV has live \
            tokens only; a value that a spreadsheet would take for a formula has a ' before it, which devices import takes off again. \
            The file can be read by its owner only.
            """
    )

    @OptionGroup(title: "Which devices") var filter: DeviceFilter

    @Option(name: [.customLong("output"), .customShort("o")], help: "The file to write. Default: stdout.")
    var output: String?

    @Option(help: "The form: csv or ndjson. Default: by the file's name, else ndjson.")
    var format: SendCommand.Format?

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if form.isJSON, output == nil, format == .csv {
            throw ValidationError("--json writes NDJSON; leave it out, or give --output for the CSV.")
        }
    }

    func run() async throws {
        let isCSV = format.map { $0 == .csv } ?? output?.lowercased().hasSuffix(".csv") ?? false
        try await DevicesClient.use(gateway) { devices in
            // The file appears under its name once it is whole.
            let part = try output.map(PrivateFile.init)
            guard let handle = fdopen(part?.descriptor ?? dup(STDOUT_FILENO), "wb") else {
                part?.discard()
                throw CommandFailure.system("write \(output ?? "stdout")", .usage)
            }
            var isOpen = true
            var isWhole = false
            defer {
                if isOpen { fclose(handle) }
                if !isWhole { part?.discard() }
            }
            var bar = ProgressBar(isShown: output != nil)
            var done = 0
            var dead = 0
            let isShown = output == nil && isatty(STDOUT_FILENO) == 1
            func write(_ line: String) throws {
                try Self.write(isShown ? Shell.harmless(line, colours: false) : line, to: handle)
            }
            if isCSV { try write(DeviceCSV.columns.joined(separator: ",")) }
            var cursor: String?
            repeat {
                let page = try await devices.page(filter, limit: 1000, after: cursor)
                for device in page.items {
                    try write(isCSV ? try DeviceCSV.row(device, &dead) : device.text)
                }
                done += page.items.count
                cursor = page.next
                bar.update(done: done, fraction: nil)
            } while cursor != nil
            isOpen = false
            guard fclose(handle) == 0 else { throw Self.failure() }
            try part?.publish()
            isWhole = true
            bar.update(done: done, fraction: nil, isLast: true)
            Shell.complain("\(done) exported")
            if form.isJSON, let output {
                Shell.print([
                    "file": .string(output), "exported": .integer(Int64(done)), "left_out": .integer(Int64(dead)),
                ])
            }
            if dead > 0 { Shell.complain("\(dead) dead tokens were left out; NDJSON keeps them") }
        }
    }

    /// Returns the error of a failed write: success when the reader of a pipe has closed it, since it has all it wants.
    private static func failure() -> any Error {
        errno == EPIPE ? ExitStatus.success : CommandFailure.system("write the devices")
    }

    private static func write(_ line: String, to handle: UnsafeMutablePointer<FILE>) throws {
        var line = line + "\n"
        let isWritten = line.withUTF8 { fwrite($0.baseAddress, 1, $0.count, handle) == $0.count }
        guard isWritten else { throw Self.failure() }
    }
}
