/*
 * PID 1 of a test guest: loads the modules of its initramfs, mounts this machine's root read-only
 * over 9p, runs the steps, and powers off. Static, so that the guest needs no busybox.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST "/host"
#define EXCHANGE "/run/guest"

static void power_off(void) {
    sync();
    reboot(LINUX_REBOOT_CMD_POWER_OFF);
}

static void give_up(const char *what, const char *name) {
    printf("guest: %s %s: %s\n", what, name, strerror(errno));
    power_off();
}

static void mount_at(const char *source, const char *target, const char *type, unsigned long flags,
                     const char *options) {
    mkdir(target, 0755);
    if (mount(source, target, type, flags, options)) give_up("mount", target);
}

/* Names start with a number: the order in which they depend on each other. */
static void load_modules(const char *directory) {
    struct dirent **names;
    int count = scandir(directory, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        if (names[i]->d_name[0] == '.') continue;
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || (syscall(SYS_finit_module, file, "", 0) && errno != EEXIST))
            give_up("module", path);
        close(file);
    }
}

static void mount_host(void) {
    mount_at("host", HOST, "9p", MS_RDONLY,
             "trans=virtio,version=9p2000.L,msize=512000,cache=loose");
    if (chroot(HOST) || chdir("/")) give_up("chroot", HOST);
    mount_at("proc", "/proc", "proc", 0, NULL);
    mount_at("sysfs", "/sys", "sysfs", 0, NULL);
    mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
    mount_at("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount_at("devpts", "/dev/pts", "devpts", 0, NULL);
    mount_at("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
    mount_at("tmpfs", "/run", "tmpfs", 0, "mode=755");
    mount_at("exchange", EXCHANGE, "9p", 0, "trans=virtio,version=9p2000.L,msize=512000");
}

static void bring_up_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int handle = socket(AF_INET, SOCK_DGRAM, 0);
    if (handle < 0 || ioctl(handle, SIOCSIFFLAGS, &request)) give_up("loopback", "lo");
    close(handle);
}

static void run_steps(void) {
    pid_t steps = fork();
    if (steps == 0) {
        execl("/bin/sh", "sh", EXCHANGE "/start", (char *)NULL);
        give_up("start", "/bin/sh");
    }
    /* Orphans of the steps come to PID 1: reap them, stop at the steps' own end. */
    pid_t ended;
    do ended = wait(NULL);
    while (ended != steps && (ended >= 0 || errno == EINTR));
}

int main(void) {
    load_modules("/modules");
    mount_host();
    bring_up_loopback();
    run_steps();
    power_off();
    return 0;
}
