// Tells Chapar that a message arrived or was opened. Needs nothing but Android and the platform's own service.
package com.example.push

import android.app.Activity
import android.os.Bundle
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage
import java.io.IOException
import java.net.HttpURLConnection
import java.net.URL
import java.util.concurrent.Executors

/** Sends reports to the gateway at [address], such as https://push.example.com. */
class Receipts(private val address: String) {
    private val thread = Executors.newSingleThreadExecutor()

    /** Reports an event, "delivered" or "opened"; does nothing for a message without an id. */
    fun report(event: String, id: String?, token: String? = null) {
        if (id != null) thread.execute { send(event, id, token) }
    }

    private fun send(event: String, id: String, token: String?) {
        val whose = if (token == null) "" else ",\"token\":\"$token\""  // Where many recipients share an id.
        val body = "{\"event\":\"$event\"$whose}".toByteArray()
        for (wait in listOf(0L, 2_000L, 8_000L)) {
            Thread.sleep(wait)
            try {
                val call = URL("$address/v1/receipts/$id").openConnection() as HttpURLConnection
                call.requestMethod = "POST"
                call.connectTimeout = 10_000
                call.readTimeout = 10_000
                call.doOutput = true
                call.setRequestProperty("Content-Type", "application/json")
                call.outputStream.use { it.write(body) }
                val status = call.responseCode
                call.disconnect()
                // 429 and 503 ask to come again; anything else stays as it is.
                if (status != 429 && status < 500) return
            } catch (_: IOException) {
            }
        }
    }
}

val receipts = Receipts("https://push.example.com")

/** Google's service: a message arrived. */
class Messages : FirebaseMessagingService() {
    override fun onMessageReceived(message: RemoteMessage) = receipts.report("delivered", message.data["chapar_receipt"])
}

/** The activity that a tap on a message opens; Android hands it the message's data. */
class OpenedActivity : Activity() {
    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        receipts.report("opened", intent.getStringExtra("chapar_receipt"))
    }
}
