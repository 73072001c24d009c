/* Something of everything that the library could disturb: threads, fork, exec, the loader. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *answer)
{
	*(int *)answer = 42;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t id;
	int answer = 0, status = 0;

	if (argc > 1)
		return 7;
	pthread_create(&id, NULL, thread, &answer);
	pthread_join(id, NULL);
	if (!fork()) {
#ifdef __aarch64__ /* Which is emulated here: the kernel itself can't start it. */
		return 7;
#endif
		execl(argv[0], argv[0], "child", (char *)NULL);
	}
	wait(&status);
	printf("%d %d\n", answer, WEXITSTATUS(status));
	return 3;
}
