import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A resource manager and two node managers, until the process is ended. It writes the settings by which
 * clients find them into the folder that it is given, and then says that it is ready.
 */
public class Yarn {
    private static final int NODES = 2;

    public static void main(String[] arguments) throws Exception {
        YarnConfiguration wanted = new YarnConfiguration();
        wanted.setInt("yarn.nodemanager.resource.memory-mb", 3072);
        wanted.setInt("yarn.nodemanager.resource.cpu-vcores", 2);
        wanted.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        wanted.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        // A disk that is nearly full makes a node unhealthy, and this one is shared.
        wanted.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99");
        wanted.set("yarn.nodemanager.delete.debug-delay-sec", "600");
        wanted.set("yarn.scheduler.capacity.root.queues", "default");
        wanted.set("yarn.scheduler.capacity.root.default.capacity", "100");
        wanted.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
        MiniYARNCluster cluster = new MiniYARNCluster("kraftlog", NODES, 1, 1);
        cluster.init(wanted);
        cluster.start();
        Path settings = Path.of(arguments[0], "yarn-site.xml");
        try (OutputStream out = Files.newOutputStream(settings)) {
            cluster.getConfig().writeXml(out);
        }
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
