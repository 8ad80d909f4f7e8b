import ArgumentParser
import Foundation
import ChaparCore

/// `chapar devices import`: imports a file of devices, of any length, in batches that the gateway commits whole.
struct DevicesImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Register the devices of a CSV or NDJSON file; doing it again does no harm.",
        discussion: """
            NDJSON: one device a line, as the API shows it and as devices export writes it.
            CSV: the first line names the columns, of \(DeviceCSV.columns.joined(separator: ", ")); \
            tags are separated by |. Only id is needed. A token of a CSV file counts as registered now.

            OneSignal's export (--from onesignal): its CSV as it is, unpacked. Unsubscribed people are kept without user and token \
            and get nothing; what is no app of iOS or Android is left out. Both are counted.

            Devices that exist are replaced. Wrong lines are named and left out. A file that is not in UTF-8, or has a \
            quotation mark that nothing closes, is refused before anything is registered. After an interruption start with --after \
            and the last line that was written.
            """
    )

    @Argument(help: "The file, - for stdin.", completion: .file(extensions: ["csv", "ndjson"]))
    var file: String

    @Option(help: "The form of the file: csv or ndjson. Default: by its name, else ndjson.")
    var format: SendCommand.Format?

    @Option(help: "Read another service's export: onesignal.")
    var from: Source?

    @Option(help: "Skip the lines up to this one.")
    var after = 0

    @Flag(help: "Import each line as it comes, before the whole input is known to be readable.")
    var stream = false

    @Flag(help: "Register nothing: read the input, name its wrong lines, and count what would be sent to the gateway.")
    var dryRun = false

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    /// A service whose export can be read.
    enum Source: String, ExpressibleByArgument, CaseIterable {
        case onesignal
    }

    func validate() throws {
        if after < 0 { throw ValidationError("--after is the number of a line.") }
        guard from != nil else { return }
        guard format != .ndjson else { throw ValidationError("OneSignal's export is CSV: leave --format out.") }
        if file.lowercased().hasSuffix(".gz") {
            throw ValidationError(
                "\(file) is compressed: gunzip -c \(file) | \(GatewayProgram.current.name) devices import - --from onesignal"
            )
        }
    }

    /// The most devices in one request; the API takes 1,000.
    private static let batchSize = 1000
    /// The most bytes in one request, well below the API's default limit.
    private static let batchBytes = 4 << 20

    /// The name of the input, for messages.
    private var source: String { file == "-" ? "stdin" : file }

    /// The counts of devices that were created, replaced or refused so far.
    private struct Tally {
        var created = 0
        var replaced = 0
        var refused = 0
        /// With --dry-run those that would be sent to the gateway.
        var readable = 0
        /// Unsubscribed ones, which are imported without user and token.
        var unsubscribed = 0
        /// Subscriptions that are not imported, by the reason; one of few.
        var leftOut: [String: Int] = [:]

        var done: Int { created.adding(clamping: replaced).adding(clamping: readable).adding(clamping: refused) }
    }

    func run() async throws {
        let isForeign = from != nil
        var input = try InputFile(
            file,
            format: isForeign ? .csv : format.map { $0 == .csv ? .csv : .ndjson },
            rows: isForeign ? .oneSignal : .devices,
            isStream: stream
        )
        defer { input.close() }
        var tally = Tally()
        var bar = ProgressBar(isShown: true)
        if dryRun {
            try await take(&input, nil, &tally, &bar)
        } else {
            try await DevicesClient.use(gateway) { try await take(&input, $0, &tally, &bar) }
        }
        bar.update(done: tally.done, fraction: input.size.map { _ in 1 }, isLast: true)
        if tally.done == 0, tally.leftOut.isEmpty { Shell.complain("\(file == "-" ? "stdin" : file) holds no device") }
        let leftOut = tally.leftOut.sorted { $0.key < $1.key }
        let others = leftOut.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        Shell.complain(
            (dryRun
                ? "dry run: \(tally.readable) to register, \(tally.refused) refused"
                : "\(tally.created) created, \(tally.replaced) replaced, \(tally.refused) refused")
                + (tally.unsubscribed == 0 ? "" : "; \(tally.unsubscribed) unsubscribed, without user and token")
                + (leftOut.isEmpty ? "" : "; left out: \(others)")
        )
        if form.isJSON {
            var result: JSONObject =
                dryRun
                ? ["readable": .integer(Int64(tally.readable))]
                : ["created": .integer(Int64(tally.created)), "replaced": .integer(Int64(tally.replaced))]
            result["refused"] = .integer(Int64(tally.refused))
            if isForeign {
                result["unsubscribed"] = .integer(Int64(tally.unsubscribed))
                result["left_out"] = .object(
                    leftOut.reduce(into: JSONObject()) { $0[$1.key] = .integer(Int64($1.value)) }
                )
            }
            Shell.print(.object(result))
        }
        if tally.refused > 0 { throw tally.refused == tally.done ? ExitStatus.failure : ExitStatus.partial }
    }

    /// Reads the input to its end and registers its devices, batch by batch; without a client it counts them.
    private func take(
        _ input: inout InputFile,
        _ devices: DevicesClient?,
        _ tally: inout Tally,
        _ bar: inout ProgressBar
    ) async throws {
        var batch = Batch()
        while let line = try input.next() {
            guard line.number > after else { continue }
            switch line.result {
            case .success(let device):
                if from != nil, let reason = device[OneSignalCSV.leftOut]?.stringValue {
                    tally.leftOut[reason, default: 0] += 1
                } else {
                    if from != nil, device["tokens"] == nil { tally.unsubscribed += 1 }
                    batch.add(device, line: line.number)
                }
            case .failure(let failure):
                tally.refused += 1
                refuse(line.number, id: nil, "invalid_line", "\(source): line \(line.number) \(failure.description)")
            }
            guard batch.lines.count >= Self.batchSize || batch.bytes.count >= Self.batchBytes else { continue }
            try await put(&batch, devices, &tally)
            let fraction = input.size.map { Double(input.consumed) / Double(max($0, 1)) }
            bar.update(done: tally.done, fraction: fraction)
        }
        if !batch.lines.isEmpty { try await put(&batch, devices, &tally) }
    }

    /// The body of a request, which grows line by line.
    private struct Batch {
        var lines: [Int] = []
        var bytes = Array(#"{"devices":["#.utf8)

        mutating func add(_ device: JSONObject, line: Int) {
            if !lines.isEmpty { bytes.append(UInt8(ascii: ",")) }
            bytes += JSONValue.object(device).bytes
            lines.append(line)
        }
    }

    private func put(_ batch: inout Batch, _ devices: DevicesClient?, _ tally: inout Tally) async throws {
        let lines = batch.lines
        guard let devices else {
            tally.readable = tally.readable.adding(clamping: lines.count)
            batch = Batch()
            return
        }
        let body = batch.bytes + Array("]}".utf8)
        batch = Batch()
        let answer = try await devices.client.postPatiently("/v1/devices/batch", body)
        if let failure = DevicesClient.failure(answer) {
            Shell.complain("up to line \((lines.first ?? 1) - 1) everything is imported")
            throw failure
        }
        func count(_ name: String) -> Int { Int(count: answer.json[name]?.integerValue ?? 0) }
        tally.created = tally.created.adding(clamping: count("created"))
        tally.replaced = tally.replaced.adding(clamping: count("replaced"))
        tally.refused = tally.refused.adding(clamping: count("refused"))
        for (line, item) in zip(lines, answer.json["devices"]?.arrayValue ?? []) {
            guard let problem = item["problem"] else { continue }
            let answer = GatewayClient.Answer(status: 422, json: problem)
            refuse(
                line,
                id: item["id"]?.stringValue,
                answer.code ?? "refused",
                "\(source): line \(line): \(answer.problem)"
            )
        }
    }

    /// Reports a device that was refused.
    private func refuse(_ line: Int, id: String?, _ code: String, _ sentence: String) {
        guard form.isJSON else { return Shell.complain(sentence) }
        Shell.print([
            "line": .integer(Int64(line)), "id": id.map { .string($0) } ?? .null, "code": .string(code),
            "detail": .string(sentence),
        ])
    }
}
