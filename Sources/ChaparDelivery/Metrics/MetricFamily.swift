internal import ChaparCore

/// A metric of the gateway: its name, type, labels and description.
///
/// This is the only table of metrics. Code that counts or writes a metric names a family; `docs/Metrics.md` is
/// generated from ``all``. Users alert on names and labels, so they are only added to.
package struct MetricFamily: Sendable, Hashable {
    /// The name, such as `chapar_queue_depth`.
    let name: String
    /// The type, as Prometheus names it.
    var type: String { kind.rawValue }
    /// The names of the labels, in order.
    let labels: [String]
    /// The description, one sentence.
    let help: String
    let kind: PrometheusText.Kind

    private init(_ kind: PrometheusText.Kind, _ name: String, _ labels: [String], _ help: String) {
        (self.kind, self.name, self.labels, self.help) = (kind, name, labels, help)
    }

    private init(_ kind: PrometheusText.Kind, _ name: String, _ help: String) { self.init(kind, name, [], help) }

    /// Returns the family under its former name, which is written beside the present one.
    private func former(_ name: FormerName) -> Self {
        Self(kind, name.former.description, labels, "The old name of `\(self.name)`.")
    }

    /// Returns the labels with their values, which are in the same order.
    func labeled(_ values: [String]) -> [(String, String)] { Array(zip(labels, values)) }
}

extension MetricFamily {
    // MARK: The API

    static let requests = Self(
        .counter,
        "chapar_http_requests_total",
        ["route", "method", "status"],
        "Requests answered."
    )
    static let requestDuration = Self(
        .histogram,
        "chapar_http_request_duration_seconds",
        ["route", "method", "status"],
        "Time from a request's head to its answer; of event streams, to their beginning."
    )
    package static let requestsInProgress = Self(.gauge, "chapar_http_requests_in_progress", "Requests being answered.")
    package static let eventStreams = Self(.gauge, "chapar_event_streams", "Event streams that are open.")
    package static let limit = Self(
        .gauge,
        "chapar_limit",
        ["limit"],
        "The limits of the API that are in force; 0 is none."
    )
    static let limitRefusals = Self(
        .counter,
        "chapar_limit_refusals_total",
        ["limit"],
        "Connections and requests that were turned away at a limit of the API."
    )
    static let accepted = Self(
        .counter,
        "chapar_notifications_accepted_total",
        ["route", "app"],
        "Notifications accepted."
    )

    // MARK: Deliveries

    static let deliveries = Self(
        .counter,
        "chapar_deliveries_total",
        ["backend", "app", "kind", "outcome", "reason"],
        "Attempts, by what the platform answered."
    )
    static let sendDuration = Self(
        .histogram,
        "chapar_send_duration_seconds",
        ["backend", "kind"],
        "Time from handing a message to its backend to the platform's answer."
    )
    static let queueWait = Self(
        .histogram,
        "chapar_queue_wait_seconds",
        ["backend", "priority"],
        "Time from a delivery's acceptance, or the time it was scheduled for, to its first attempt."
    )
    static let deliveryDuration = Self(
        .histogram,
        "chapar_delivery_duration_seconds",
        ["backend", "priority"],
        "Time from a delivery's acceptance, or the time it was scheduled for, to the platform's acceptance or final refusal; retries included."
    )
    static let retries = Self(
        .counter,
        "chapar_retries_total",
        ["backend", "reason"],
        "Deliveries that wait for another attempt at the same backend."
    )
    static let fallbacks = Self(
        .counter,
        "chapar_fallbacks_total",
        ["from", "to", "reason"],
        "Deliveries that went on to the next backend of their plan."
    )
    static let escalations = Self(
        .counter,
        "chapar_escalations_total",
        ["backend", "result"],
        "Deliveries of routes with escalate: awaited, which the backend took and which wait for a report; sent, for which it took over; limited, for which max_per_day let it not."
    )
    static let quotaWait = Self(
        .histogram,
        "chapar_quota_wait_seconds",
        ["backend"],
        "How long a delivery worker waited at a time because its rate limit was used up."
    )
    package static let queueDepth = Self(
        .gauge,
        "chapar_queue_depth",
        ["backend"],
        "Deliveries that wait or are claimed, scheduled ones included."
    )
    package static let queueOldestAge = Self(
        .gauge,
        "chapar_queue_oldest_age_seconds",
        ["backend"],
        "Age of the delivery that has been due the longest; alert on this one."
    )
    package static let keyOldestAge = Self(
        .gauge,
        "chapar_key_oldest_age_seconds",
        ["key"],
        "Age of the API key's delivery that has been due the longest; 0 when none is due."
    )
    package static let queueFull = Self(
        .gauge,
        "chapar_queue_full",
        "1 while new work is refused since max_waiting deliveries wait, or nearly."
    )
    package static let ledgerAccepted = Self(
        .counter,
        "chapar_ledger_accepted_total",
        "Deliveries accepted since the start."
    )
    package static let ledgerEnded = Self(
        .counter,
        "chapar_ledger_ended_total",
        ["state"],
        "Deliveries that reached a final state since the start."
    )
    package static let ledgerIgnored = Self(
        .counter,
        "chapar_ledger_ignored_total",
        "Answers of workers that changed nothing: the delivery was final, or another worker had claimed it since."
    )
    package static let ledgerWaiting = Self(.gauge, "chapar_ledger_waiting", "Deliveries that are not final.")
    package static let ledgerDifference = Self(
        .gauge,
        "chapar_ledger_difference",
        "Accepted less ended and waiting. It is 0 at rest; another value that stays means lost or doubled deliveries."
    )

    // MARK: Backends

    package static let backendUp = Self(
        .gauge,
        "chapar_backend_up",
        ["backend", "kind", "app"],
        "1 in order, 0.5 degraded, 0 down, as the backend itself sees it."
    )
    package static let backendConnections = Self(
        .gauge,
        "chapar_backend_connections",
        ["backend"],
        "Connections that take messages."
    )
    package static let credentialExpiry = Self(
        .gauge,
        "chapar_credential_expiry_timestamp_seconds",
        ["backend", "credential"],
        "When a credential ends, in seconds since 1970; without `backend`, the gateway's own certificate."
    )
    package static let inFlight = Self(.gauge, "chapar_inflight", ["backend"], "Messages with the backend now.")
    package static let window = Self(
        .gauge,
        "chapar_window",
        ["backend"],
        "The most messages that may be with the backend now."
    )
    package static let workerPaused = Self(
        .gauge,
        "chapar_worker_paused",
        ["backend"],
        "0 while messages flow, 1 during a pause, 2 parked until mended."
    )
    package static let formerWorkerPaused = workerPaused.former(.workerPaused)
    package static let breakerState = Self(
        .gauge,
        "chapar_breaker_state",
        ["backend"],
        "0 closed, 1 half open, 2 open: no messages go to the backend."
    )

    // MARK: Devices

    static let tokensInvalidated = Self(
        .counter,
        "chapar_tokens_invalidated_total",
        ["backend", "reason"],
        "Device tokens that a platform declared dead."
    )
    static let invalidationsQuarantined = Self(
        .counter,
        "chapar_invalidations_quarantined_total",
        ["backend", "reason"],
        "Dead-token answers that were quarantined because there were too many of them."
    )
    static let formerInvalidationsQuarantined = invalidationsQuarantined.former(.invalidationsQuarantinedTotal)
    package static let invalidationsStopped = Self(
        .gauge,
        "chapar_invalidations_stopped",
        ["backend"],
        "1 while quarantined invalidations stop the delivery worker until an operator decides."
    )
    package static let invalidationsUndecided = Self(
        .gauge,
        "chapar_invalidations_undecided",
        ["backend"],
        "API keys whose dead-token answers are quarantined until an operator decides; the backend goes on."
    )
    static let operations = Self(
        .counter,
        "chapar_operations_total",
        ["backend", "kind", "outcome"],
        "Attempts to tell a platform something about a device, by their outcome."
    )
    package static let operationsWaiting = Self(
        .gauge,
        "chapar_operations_waiting",
        ["backend"],
        "What platforms are still to be told about devices."
    )
    package static let changesUnplanned = Self(
        .gauge,
        "chapar_device_changes_unplanned",
        "Changes of devices that wait for the planner."
    )
    static let noticesDropped = Self(
        .counter,
        "chapar_notices_dropped_total",
        "Notices of backends that did not reach the stream of events."
    )

    // MARK: The store and the process

    package static let storeUp = Self(.gauge, "chapar_store_up", "1 while the store answers.")
    package static let storeAcceptsWork = Self(.gauge, "chapar_store_accepts_work", "1 while new work is taken.")
    package static let storeUsed = Self(
        .gauge,
        "chapar_store_used_bytes",
        "Bytes in use in the store's files; free pages are not."
    )
    package static let storeFree = Self(
        .gauge,
        "chapar_store_free_bytes",
        "Free bytes of the disk that holds the store."
    )
    package static let storeDeadRows = Self(
        .gauge,
        "chapar_store_dead_rows",
        "Rows of the queue that are dead and that PostgreSQL has not removed; 0 with the embedded store."
    )
    package static let storeOldestSnapshot = Self(
        .gauge,
        "chapar_store_oldest_snapshot_seconds",
        "How long the oldest snapshot has been held that keeps PostgreSQL from removing dead rows, looked at once a minute; 0 for none."
    )
    package static let brokenRun = Self(
        .gauge,
        "chapar_last_run_broken",
        "1 when the gateway that had the embedded store before did not end in order: killed, ended by a fault, or without power."
    )
    static let build = Self(
        .gauge,
        "chapar_build_info",
        ["version", "commit"],
        "Which build this is; the value is always 1."
    )
    static let processStart = Self(
        .gauge,
        "process_start_time_seconds",
        "When the gateway started, in seconds since 1970."
    )
    static let processMemory = Self(.gauge, "process_resident_memory_bytes", "Memory in use.")
    static let processCPU = Self(.counter, "process_cpu_seconds_total", "Processor time used.")

    // MARK: Webhooks

    static let webhookAttempts = Self(
        .counter,
        "chapar_webhook_attempts_total",
        ["webhook", "app", "outcome"],
        "Requests to a webhook, by their outcome."
    )
    static let webhookDuration = Self(
        .histogram,
        "chapar_webhook_duration_seconds",
        ["webhook", "app"],
        "Time from the beginning of a request to a webhook to its end."
    )
    static let webhookEvents = Self(
        .counter,
        "chapar_webhook_events_total",
        ["webhook", "app"],
        "Events that a webhook has taken."
    )
    static let webhookGivenUp = Self(
        .counter,
        "chapar_webhook_given_up_total",
        ["webhook", "app"],
        """
        Messages that are given up: not taken at the last attempt, which a request to recover sends again, or without an \
        event in the log any more.
        """
    )
    package static let webhookLag = Self(
        .gauge,
        "chapar_webhook_lag_events",
        ["webhook", "app"],
        "Events of the log that a webhook's sender has still to pass."
    )
    package static let webhookOpen = Self(
        .gauge,
        "chapar_webhook_open_messages",
        ["webhook", "app"],
        "Messages that wait for another attempt."
    )
    package static let webhookDisabled = Self(
        .gauge,
        "chapar_webhook_disabled",
        ["webhook", "app"],
        "1 while a webhook gets nothing, since it failed, answered 410, or was disabled."
    )

    // MARK: Traces

    static let spans = Self(
        .counter,
        "chapar_trace_spans_total",
        ["outcome"],
        "Spans that the collector of traces took (`exported`), did not take (`failed`), or that found the queue full (`dropped`)."
    )

    // MARK: Reports of apps

    static let appReceipts = Self(
        .counter,
        "chapar_app_receipts_total",
        ["app", "event", "result"],
        "Reports of apps that a message arrived or was opened, by their result."
    )
    static let forgedReceipts = Self(
        .counter,
        "chapar_app_receipts_forged_total",
        "Reports with an id that this installation did not make, or that has ended."
    )

    /// Every family, by subject, in the order of the documents.
    static let all: [(subject: String, families: [MetricFamily])] = [
        (
            "The API",
            [requests, requestDuration, requestsInProgress, eventStreams, limit, limitRefusals, accepted]
        ),
        (
            "Deliveries",
            [
                queueOldestAge, keyOldestAge, queueDepth, queueFull, deliveries, sendDuration, queueWait,
                deliveryDuration, retries, fallbacks, escalations, quotaWait, ledgerAccepted, ledgerEnded,
                ledgerIgnored, ledgerWaiting, ledgerDifference,
            ]
        ),
        (
            "Backends",
            [
                backendUp, backendConnections, credentialExpiry, inFlight, window, workerPaused, formerWorkerPaused,
                breakerState,
            ]
        ),
        (
            "Devices",
            [
                tokensInvalidated, invalidationsQuarantined, formerInvalidationsQuarantined, invalidationsStopped,
                invalidationsUndecided, operations, operationsWaiting, changesUnplanned, noticesDropped,
            ]
        ),
        (
            "Webhooks",
            [
                webhookAttempts, webhookDuration, webhookEvents, webhookGivenUp, webhookLag, webhookOpen,
                webhookDisabled,
            ]
        ),
        ("Traces", [spans]),
        ("Reports of apps", [appReceipts, forgedReceipts]),
        (
            "The store and the process",
            [
                storeUp, storeAcceptsWork, storeUsed, storeFree, storeDeadRows, storeOldestSnapshot, brokenRun, build,
                processStart, processMemory, processCPU,
            ]
        ),
    ]
}
